package reflector_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// gateway stands before a real API server. It can hold watches up and answer them with 410, as an API server does that was restarted.
// Everything else is the real server's.
type gateway struct {
	*httptest.Server
	mu      sync.Mutex
	open    chan struct{}  // closed while watches may pass
	cut     chan struct{}  // closed to end the watches that run
	expire  bool           // the next watch gets 410
	exact   int            // reads of the past so far
	reading func(n int)    // told of each
	running sync.WaitGroup // watches

	answered func(exact bool, status int) // told of each answer but those of watches
}

func newGateway(t testing.TB, config *rest.Config) *gateway {
	t.Helper()
	target, _, err := rest.DefaultServerUrlFor(config)
	mustDo(t, err)
	transport, err := rest.TransportFor(config)
	mustDo(t, err)
	g := &gateway{open: make(chan struct{}), cut: make(chan struct{})}
	close(g.open)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	proxy.Transport = transport
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		g.mu.Lock()
		answered := g.answered
		g.mu.Unlock()
		if q := r.Request.URL.Query(); answered != nil && q.Get("watch") == "" {
			answered(q.Get("resourceVersionMatch") == "Exact", r.StatusCode)
		}
		return nil
	}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "1" {
			g.past(r)
			proxy.ServeHTTP(w, r)
			return
		}
		g.watch(w, r, proxy)
	}))
	t.Cleanup(func() { g.hold(); g.Server.CloseClientConnections(); g.Server.Close() })
	return g
}

// past counts the reads of the past.
func (g *gateway) past(r *http.Request) {
	if r.URL.Query().Get("resourceVersionMatch") != "Exact" {
		return
	}
	g.mu.Lock()
	g.exact++
	n, reading := g.exact, g.reading
	g.mu.Unlock()
	if reading != nil {
		reading(n)
	}
}

func (g *gateway) watch(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	g.mu.Lock()
	for isOpen := false; !isOpen; {
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
		case <-r.Context().Done():
			return
		}
		g.mu.Lock()
		isOpen = open == g.open // it was not held meanwhile
	}
	expire, cut := g.expire, g.cut
	g.expire = false
	g.running.Add(1)
	g.mu.Unlock()
	defer g.running.Done()
	if expire {
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`)
		return
	}
	ctx, cancel := contextWith(r, cut)
	defer cancel()
	defer func() { _ = recover() }() // the proxy's way to say that its client went away
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// hold ends the watches that run and lets no new one through. What happens afterwards is not watched.
func (g *gateway) hold() {
	g.mu.Lock()
	g.open = make(chan struct{})
	close(g.cut)
	g.cut = make(chan struct{})
	g.mu.Unlock()
	g.running.Wait()
}

// release lets watches through again. The first one gets a 410 if expire is set.
func (g *gateway) release(expire bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire = expire
	close(g.open)
}

func (g *gateway) config() *rest.Config { return &rest.Config{Host: g.URL, QPS: -1} }
