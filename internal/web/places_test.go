package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"kubecdc/test/servers"
)

// named knows the tokens that begin with "known". The review of another one lasts until its client leaves.
type named struct{ reviewing *atomic.Int64 }

func (n named) Allow(ctx context.Context, token string, _ Asked) error {
	if strings.HasPrefix(token, "known") {
		return nil
	}
	n.reviewing.Add(1)
	defer n.reviewing.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

func (n named) nameOf(token string) string { return token }

// watching starts a server whose watches send a line each time that it gets a tick, and whose other requests are answered at once.
func watching(t *testing.T, o Options) (s *Server, tick func(), ended *atomic.Int64, reviewing *atomic.Int64) {
	o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	s, err := Listen(o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	access := named{&atomic.Int64{}}
	var ticks atomic.Int64
	ended = &atomic.Int64{}
	mux := http.NewServeMux()
	allowed := func(w http.ResponseWriter, r *http.Request) bool {
		err := May(access, r, path("/"))
		if err != nil && r.Context().Err() == nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
		return err == nil
	}
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		if allowed(w, r) {
			_, _ = io.WriteString(w, SenderOf(r.Context()))
		}
	})
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		if !allowed(w, r) {
			return
		}
		defer ended.Add(1)
		for last := int64(-1); r.Context().Err() == nil; time.Sleep(time.Millisecond) {
			if now := ticks.Load(); now != last {
				last = now
				_, _ = fmt.Fprintln(w, last)
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for part := make([]byte, 1<<20); allowed(w, r); {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	go s.Serve(s.Long(mux))
	return s, func() { ticks.Add(1) }, ended, access.reviewing
}

func ask(t *testing.T, client *http.Client, url, token string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(r)
	must(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// goOn demands that all watches get the next tick, and that none has ended.
func goOn(t *testing.T, watches []*bufio.Reader, ended *atomic.Int64) {
	t.Helper()
	for i, watch := range watches {
		for line := ""; line != "1\n"; {
			var err error
			if line, err = watch.ReadString('\n'); err != nil {
				t.Fatalf("watch %d: %v", i, err)
			}
		}
	}
	if n := ended.Load(); n != 0 {
		t.Errorf("%d watches have ended", n)
	}
}

// separate returns a client that opens a connection for each request, from another address than a flood.
func separate() *http.Client {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: from.DialContext}}
}

// Each user of many connections has a share of them. Then invented tokens take all others, again and again: no watch ends, and a user who has no
// connection yet gets answers.
func TestInventedTokensEndNoWatch(t *testing.T) {
	t.Parallel()
	const most = 40
	s, tick, ended, reviewing := watching(t, Options{MostConnections: most})
	var open []*bufio.Reader
	for _, user := range []struct {
		name string
		most int
	}{{"a", most / 2}, {"b", most / 4}, {"c", most / 8}} {
		for i := 0; ; i++ {
			answer := ask(t, separate(), s.URL()+"/watch", "known "+user.name)
			if answer.StatusCode != http.StatusOK {
				if i != user.most {
					t.Errorf("%s has %d watches: %s", user.name, i, answer.Status)
				}
				break
			}
			open = append(open, bufio.NewReader(answer.Body))
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 8 {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				c, err := net.Dial("tcp", s.Addr())
				if err != nil {
					continue
				}
				_, _ = fmt.Fprintf(c, "GET /watch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer invented%d\r\n\r\n", n)
				defer c.Close()
			}
		}()
	}
	servers.Await(t, "a flood", func() (bool, error) { return reviewing.Load() > 2, nil })
	for i := range 20 {
		body, err := io.ReadAll(ask(t, separate(), s.URL()+"/get", "known new").Body)
		if err != nil || string(body) != "known new" {
			t.Fatalf("answer %d in a flood is %q, %v", i, body, err)
		}
	}
	tick()
	goOn(t, open, ended)
}

// secure returns the settings of a certificate, and a client that speaks HTTP/2.
func secure(t *testing.T) (o Options, client *http.Client) {
	dir := t.TempDir()
	crt, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must(t, err)
	o.TLSCert, o.TLSKey = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	must(t, os.WriteFile(o.TLSCert, crt, 0o600))
	must(t, os.WriteFile(o.TLSKey, key, 0o600))
	return o, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
}

// Requests of one HTTP/2 connection do not disturb each other: one that is not read is cut, and watches go on. A user has a share of
// all requests, and invented tokens end none of them.
func TestRequestsOfOneConnection(t *testing.T) {
	t.Parallel()
	o, client := secure(t)
	o.MostConnections, o.MostRequests, o.Within = 200, 20, time.Second
	s, tick, ended, _ := watching(t, o)
	var open []*bufio.Reader
	for range 8 {
		answer := ask(t, client, s.URL()+"/watch", "known a")
		if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Proto, answer.Status)
		}
		open = append(open, bufio.NewReader(answer.Body))
	}
	s.connections.mu.Lock()
	if n := len(s.connections.open); n != 1 {
		t.Errorf("8 watches have %d connections", n)
	}
	s.connections.mu.Unlock()
	unread := ask(t, client, s.URL()+"/endless", "known a")
	servers.Await(t, "the end of what is not read", func() (bool, error) {
		s.requests.mu.Lock()
		defer s.requests.mu.Unlock()
		return len(s.requests.open) == 8, nil
	})
	if _, err := io.Copy(io.Discard, unread.Body); err == nil {
		t.Error("an answer that was cut seems complete")
	}
	for range 2 {
		ask(t, client, s.URL()+"/watch", "known a")
	}
	if answer := ask(t, client, s.URL()+"/watch", "known a"); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more than half: %s", answer.Status)
	}
	_, other := secure(t)
	refused := make(chan *http.Response, 60)
	for n := range cap(refused) {
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/get", nil)
			r.Header.Set("Authorization", fmt.Sprint("Bearer invented", n))
			if answer, err := other.Do(r); err == nil {
				refused <- answer
			}
		}()
	}
	for range cap(refused) - 10 { // the places of the others
		if answer := <-refused; answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("an invented token: %s", answer.Status)
		}
	}
	tick()
	goOn(t, open, ended)
}

// One user has at most half, and another one a part of the rest. A client that waits gets what is given back, or leaves.
func TestSharesLeaveRoom(t *testing.T) {
	s := NewShares(64)
	for user, want := range []int{32, 16, 8, 4, 2, 1, 0} {
		n := 0
		for s.Try(fmt.Sprint(user), 1) {
			n++
		}
		if n != want {
			t.Errorf("user %d has %d", user, n)
		}
	}
	got := make(chan error, 2)
	ctx, leave := context.WithCancel(t.Context())
	go func() { got <- s.Acquire(ctx, "0", 2) }()
	servers.Await(t, "a waiter", func() (bool, error) { s.mu.Lock(); defer s.mu.Unlock(); return len(s.waiting) == 1, nil })
	go func() { got <- s.Acquire(t.Context(), "6", 2) }()
	servers.Await(t, "another one", func() (bool, error) { s.mu.Lock(); defer s.mu.Unlock(); return len(s.waiting) == 2, nil })
	s.Release("1", 16)
	if err := <-got; err != nil {
		t.Error(err)
	}
	leave()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.Release("6", 2)
	if s.free != 17 || len(s.waiting) != 0 {
		t.Errorf("%d are free, %d wait", s.free, len(s.waiting))
	}
}
