package reflector_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
)

// gapServer has one object, which was changed at the end of a gap: a recovery reads each revision of it, once.
type gapServer struct {
	to     int
	answer func(n int) (took time.Duration, status int, after string) // to the n-th read of the past

	mu              sync.Mutex
	expired         map[string]bool
	asked           []time.Time // reads of the past, of all streams
	running, atOnce int
}

func (g *gapServer) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	answer := func(status int, after string, body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
	}
	now := listed(strconv.Itoa(g.to), "", fmt.Sprintf("a a %d", g.to))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case q.Get("watch") != "" && !g.expired[path.Base(r.URL.Path)]:
		g.expired[path.Base(r.URL.Path)] = true
		return answer(200, "", strings.NewReader(errorEvent(gone(""))))
	case q.Get("watch") != "":
		reader, _ := io.Pipe()
		context.AfterFunc(r.Context(), func() { reader.CloseWithError(r.Context().Err()) })
		return answer(200, "", reader)
	case q.Get("resourceVersionMatch") != "Exact":
		return answer(200, "", strings.NewReader(now))
	case !g.expired[path.Base(r.URL.Path)]: // a stream that has just started verifies that the server has its history
		return answer(200, "", strings.NewReader(listed("100", "", "a a 100")))
	}
	g.asked = append(g.asked, time.Now())
	took, status, after := g.answer(len(g.asked))
	g.running++
	g.atOnce = max(g.atOnce, g.running)
	g.mu.Unlock()
	time.Sleep(took)
	g.mu.Lock()
	g.running--
	if status != 200 {
		return answer(status, after, strings.NewReader(failure(status, "TooManyRequests")))
	}
	version := q.Get("resourceVersion")
	if version == strconv.Itoa(g.to) {
		return answer(200, "", strings.NewReader(now))
	}
	return answer(200, "", strings.NewReader(listed(version, "", "a a 100")))
}

// in is how many reads of the past were made between two times after the first.
func (g *gapServer) in(from, to time.Duration) (n int) {
	for _, t := range g.asked {
		if since := t.Sub(g.asked[0]); since >= from && since < to {
			n++
		}
	}
	return n
}

// recoverGap lets two streams recover a gap of so many revisions with one limiter, from 100 to 500 requests a second.
func recoverGap(t *testing.T, revisions int, answer func(n int) (time.Duration, int, string)) *gapServer {
	t.Helper()
	g := &gapServer{to: 100 + revisions, answer: answer, expired: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		options := plain()
		options.Recovery = recoverAt(100, 500)
		config := &rest.Config{Host: "http://script", Transport: g, QPS: -1}
		for _, plural := range []string{"configmaps", "secrets"} {
			resource := configMaps
			resource.Plural = plural
			l := resumed("100", "a a 100")
			l.moved = make(chan struct{})
			o := &quietObserver{}
			_, stop := startStream(t, config, change.NewStream(resource, "", "", ""), options, l, o)
			defer func() {
				l.awaitPosition(t, strconv.Itoa(g.to))
				_ = stop()
				if all := gaps(l.controls); len(all) != 1 || !all[0].Complete {
					t.Errorf("gap records %+v, want a complete one", all)
				}
				if n := len(o.progress); n < 3 || !slices.IsSorted(o.progress) || o.progress[n-1] < revisions/2 {
					t.Errorf("%d reports of the progress: %v, want one a second, up to %d", n, o.progress, revisions)
				}
			}()
		}
	})
	return g
}

// The rate of a recovery begins low and rises while the server answers fast, up to the most that is allowed.
func TestARecoveryBeginsSlowlyAndGrowsFaster(t *testing.T) {
	g := recoverGap(t, 3000, func(int) (time.Duration, int, string) { return 5 * time.Millisecond, 200, "" })
	for second, want := range []int{150, 250, 350, 450, 500, 500} {
		from := time.Duration(second) * time.Second
		if n := g.in(from, from+time.Second); n < want-25 || n > want+25 {
			t.Errorf("%d requests in second %d, want about %d", n, second+1, want)
		}
	}
}

// A 429 stops all streams for as long as the server says, and halves the rate of all.
func TestA429HoldsAllStreamsBack(t *testing.T) {
	g := recoverGap(t, 3000, func(n int) (time.Duration, int, string) {
		if n == 1001 {
			return 5 * time.Millisecond, 429, "7"
		}
		return 5 * time.Millisecond, 200, ""
	})
	stop := g.asked[1000].Sub(g.asked[0])
	if n := g.in(stop+10*time.Millisecond, stop+7*time.Second); n > 0 {
		t.Errorf("%d requests while the server asks to be left alone", n)
	}
	before, after := g.in(stop-time.Second, stop), g.in(stop+7*time.Second, stop+8*time.Second)
	if after < before*4/10 || after > before*7/10 {
		t.Errorf("%d requests in the second before the 429, %d in the second after the pause, want about half", before, after)
	}
}

// A server that becomes slow is asked for less, one request at a time in the end. It is asked for more when it is fast again.
func TestASlowServerIsAskedForLess(t *testing.T) {
	g := recoverGap(t, 3000, func(n int) (time.Duration, int, string) {
		if n > 800 && n <= 840 {
			return 400 * time.Millisecond, 200, ""
		}
		return 5 * time.Millisecond, 200, ""
	})
	slow := g.asked[839].Sub(g.asked[0])
	if n := g.in(slow-4*time.Second, slow); n > 11 {
		t.Errorf("%d requests in the last 4 seconds in which the server was slow, want one at a time", n)
	}
	if n := g.in(slow+5*time.Second, slow+6*time.Second); n < 60 {
		t.Errorf("%d requests in a second after it was fast again for five", n)
	}
}
