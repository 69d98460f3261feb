package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections bounds how many connections a server has. A connection above the bound closes the one that has been idle for longest.
// New ones are not refused, because a client that opens many must not lock out the others.
type connections struct {
	most   int
	mu     sync.Mutex
	open   map[net.Conn]connectionState
	events uint64
}

type connectionState struct {
	active   bool   // a request has begun
	hijacked bool   // the HTTP server does not know it any more
	since    uint64 // number of the event that set this state
}

// closeHijacked closes the connections that the HTTP server does not.
func (c *connections) closeHijacked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, s := range c.open {
		if s.hijacked {
			_ = conn.Close()
		}
	}
}

// changed records a connection's new state. It is the ConnState of an http.Server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // its Close does not wait, unlike TLS's
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed {
		delete(c.open, conn)
		return
	}
	c.events++
	hijacked := state == http.StateHijacked // its owner tells when it closes it
	c.open[conn] = connectionState{hijacked || state == http.StateActive, hijacked, c.events}
	if len(c.open) > c.most {
		longest := c.longest(conn)
		delete(c.open, longest)
		_ = longest.Close()
	}
}

// longest returns the connection that has been without a request for longest. If all others have one, it returns the one with the
// oldest request.
func (c *connections) longest(except net.Conn) (found net.Conn) {
	var state connectionState
	for conn, s := range c.open {
		first := found == nil || state.active && !s.active || state.active == s.active && s.since < state.since
		if conn != except && first {
			found, state = conn, s
		}
	}
	return found
}

// Bodiless refuses requests with a body, and does not wait for the body.
func Bodiless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		Refuse(w, "a request has no body here", http.StatusRequestEntityTooLarge)
	})
}

// Refuse answers a request whose body is not read.
func Refuse(w http.ResponseWriter, why string, code int) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // or the server would read on
	w.Header().Set("Connection", "close")
	http.Error(w, why, code)
}
