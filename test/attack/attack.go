// Package attack attacks a listener as somebody can who only reaches its port.
package attack

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// Victim is a server in a process of its own, with a path that the bearer of a token gets.
type Victim struct {
	Process         *os.Process
	Scheme, Address string
	Path, Token     string
	Want            string // a part of the answer
	Most            int64  // bytes of memory
}

// Attack opens as many connections as possible, and sends what costs most: requests that clients without a token send, and then nothing
// more. The process remains small, the bearer of the token gets answers, and no such connection remains open.
func (v *Victim) Attack(t *testing.T, requests map[string]string) {
	var opened atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, sent := range requests {
		wg.Go(func() { v.attack(sent, &opened, stop) })
	}
	var took []time.Duration
	for len(took) < 5 || opened.Load() < 3000 {
		took = append(took, v.ask(t))
	}
	close(stop)
	wg.Wait()
	slices.Sort(took)
	peak := v.peak(t)
	t.Logf("%d connections; peak RSS %.1f MB; %d answers, the slowest in %s, half of them in %s", opened.Load(), float64(peak)/1e6,
		len(took), took[len(took)-1], took[len(took)/2])
	if peak > v.Most {
		t.Error("that is too much memory")
	}
	for name, sent := range requests {
		if !strings.Contains(name, "gets") { // an idle connection may stay for two minutes
			v.wantClosed(t, name, sent)
		}
	}
}

func (v *Victim) dial() (net.Conn, error) {
	if v.Scheme == "https" {
		return tls.Dial("tcp", v.Address, &tls.Config{InsecureSkipVerify: true})
	}
	return net.Dial("tcp", v.Address)
}

// attack opens connections, of which it keeps up to 300.
func (v *Victim) attack(sent string, opened *atomic.Int64, stop chan struct{}) {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if len(open) == 300 {
			open[0].Close()
			open = open[1:]
		}
		c, err := v.dial()
		if err != nil {
			continue
		}
		opened.Add(1)
		_, _ = io.WriteString(c, sent)
		open = append(open, c)
	}
}

// ask asks on a new connection, as whoever comes for an answer does.
func (v *Victim) ask(t *testing.T) time.Duration {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, v.Scheme+"://"+v.Address+v.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v.Token)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	for began, clock := time.Now(), servers.StartClock(); ; {
		answer, err := client.Do(r)
		if err != nil { // it was the oldest of too many: who comes first is for the scheduler to say
			if clock.Late() {
				t.Fatalf("no answer: %v", err)
			}
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(body), v.Want)) {
			t.Fatalf("%s: %.200s", answer.Status, body)
		}
		if err == nil {
			return time.Since(began)
		}
	}
}

// peak is the most memory that the process had resident, in bytes.
func (v *Victim) peak(t *testing.T) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(after, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// wantClosed demands that the server ends a connection on which nothing more comes.
func (v *Victim) wantClosed(t *testing.T, name, sent string) {
	t.Helper()
	c, err := v.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	_, _ = io.WriteString(c, sent)
	if _, err := io.Copy(io.Discard, c); err != nil && os.IsTimeout(err) {
		t.Errorf("%s: the connection is still open after minutes", name)
	}
}
