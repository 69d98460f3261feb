// Package web serves HTTP on a port that anybody may reach. It bounds the cost of a stranger's request, serves TLS with
// certificates that can be rotated, and decides who may read. It does not know what is served.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// These bound the cost of a request whose sender is not yet known.
const (
	mostHeader = 12 << 10 // bytes; the library adds 4 KiB
	readWithin = 5 * time.Second
	// answerWithin is how long an answer may take, or a part of a long one. A client that reads more slowly is disconnected.
	answerWithin = 30 * time.Second
	// mostStreams is how many requests an HTTP/2 connection has at once. A client with more opens another connection.
	mostStreams = 250
)

// Options are the settings of a server.
type Options struct {
	Listen          string        // HOST:PORT
	TLSCert, TLSKey string        // files, or empty for no TLS
	Within          time.Duration // how long an answer may take, or 0 for answerWithin
	MostConnections int
	MostRequests    int // with Long, or 0 to have HTTP/1.1 alone, whose connections have one request at a time
	Log             *slog.Logger
}

// Server is a server of HTTP/1.1, and over TLS also of HTTP/2.
type Server struct {
	http                  *http.Server
	listener              net.Listener
	within                time.Duration
	isTLS                 bool // package http makes a TLSConfig too
	connections, requests *places
	byConnection          sync.Map // the *place of each net.Conn
}

// Listen returns a server, or the *net.OpError of listening.
func Listen(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, within: cmp.Or(o.Within, answerWithin), connections: newPlaces(o.MostConnections),
		requests: newPlaces(cmp.Or(o.MostRequests, o.MostConnections))}
	s.http = &http.Server{ReadTimeout: readWithin, WriteTimeout: s.within, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: mostHeader, Protocols: new(http.Protocols),
		ConnContext: s.accepted, ConnState: s.changed,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(o.MostRequests > 0)
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: mostStreams, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: 64 << 10,
		MaxReceiveBufferPerStream:     64 << 10, SendPingTimeout: answerWithin, PingTimeout: answerWithin,
		WriteByteTimeout: answerWithin}
	if o.TLSCert != "" {
		c := certificate{certFile: o.TLSCert, keyFile: o.TLSKey, log: o.Log}
		s.http.TLSConfig, s.isTLS = &tls.Config{GetCertificate: c.load, MinVersion: tls.VersionTLS12}, true
	}
	return s, nil
}

// Serve answers until Close.
func (s *Server) Serve(h http.Handler) {
	s.http.Handler = h
	if s.isTLS {
		_ = s.http.ServeTLS(s.listener, "", "")
		return
	}
	_ = s.http.Serve(s.listener)
}

// Addr returns the server's address, with the chosen port if it was 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the server's URL, without a path.
func (s *Server) URL() string {
	if s.isTLS {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Close stops the server. It waits up to a second for running requests, and then ends them.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	defer s.connections.endHijacked()
	if err := s.http.Shutdown(ctx); err == nil {
		return nil
	}
	return s.http.Close()
}

// accepted gives a new connection a place.
func (s *Server) accepted(ctx context.Context, conn net.Conn) context.Context {
	under := conn
	if t, ok := conn.(*tls.Conn); ok {
		under = t.NetConn() // TLS writes an end first
	}
	p := s.connections.enter(conn.RemoteAddr().String(), func() { go under.Close() }) // Close waits for who reads or writes
	s.byConnection.Store(conn, p)
	return context.WithValue(ctx, placesKey{}, p)
}

// changed records a connection's new state.
func (s *Server) changed(conn net.Conn, state http.ConnState) {
	found, _ := s.byConnection.Load(conn)
	p, isOpen := found.(*place)
	switch {
	case !isOpen:
	case state == http.StateClosed:
		s.byConnection.Delete(conn)
		p.leave()
	case state == http.StateHijacked: // its owner tells when it closes it
		p.all.mu.Lock()
		p.hijacked = true
		p.all.mu.Unlock()
	case state == http.StateActive:
		p.changed(1)
	case state == http.StateIdle:
		p.changed(0)
	}
}

// Long lets answers last for as long as their client reads them, and bounds how many there are.
func (s *Server) Long(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.ContentLength == 0 {
			_ = c.SetReadDeadline(time.Time{}) // only the end of the connection is still to be read
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		connection, _ := ctx.Value(placesKey{}).(*place)
		request := s.requests.enter(r.RemoteAddr, func() { cancel(ErrCrowded) })
		defer request.leave()
		l := &long{ResponseWriter: w, control: c, server: s}
		l.within(0) // it may be silent for long
		next.ServeHTTP(l, r.WithContext(context.WithValue(ctx, placesKey{}, held{connection, request})))
		if errors.Is(context.Cause(ctx), ErrCrowded) && !l.began {
			w.Header().Set("Retry-After", "1")
			http.Error(w, ErrCrowded.Error(), http.StatusServiceUnavailable)
		}
		l.within(s.within) // for the answer's end, which is written after this
	})
}

// long is a ResponseWriter with a deadline for each part of the answer, not for all of it.
type long struct {
	http.ResponseWriter
	control *http.ResponseController
	server  *Server
	began   bool // the answer
}

// within sets how long the next part may take, or no limit for 0. HTTP/2 ends an answer at its deadline even if nothing is
// written.
func (l *long) within(limit time.Duration) {
	end := time.Time{}
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	_ = l.control.SetWriteDeadline(end)
}

func (l *long) WriteHeader(code int) {
	l.began = true
	l.ResponseWriter.WriteHeader(code)
}

func (l *long) Write(part []byte) (int, error) {
	l.began = true
	l.within(l.server.within)
	defer l.within(0)
	return l.ResponseWriter.Write(part)
}

// FlushError is for http.ResponseController.
func (l *long) FlushError() error {
	l.began = true
	l.within(l.server.within)
	defer l.within(0)
	return l.control.Flush()
}

func (l *long) Unwrap() http.ResponseWriter { return l.ResponseWriter }
