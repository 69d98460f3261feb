// Package web serves HTTP on a port that anybody may reach. It bounds the cost of a stranger's request, serves TLS with certificates
// that can be rotated, and decides who may read. It does not know what is served.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// These bound the cost of a request whose sender is not yet known.
const (
	mostHeader = 12 << 10 // bytes; the library adds 4 KiB
	readWithin = 5 * time.Second
	// answerWithin is how long an answer may take, or a part of a long one. A client that reads more slowly is disconnected.
	answerWithin = 30 * time.Second
)

// Options are the settings of a server.
type Options struct {
	Listen          string        // HOST:PORT
	TLSCert, TLSKey string        // files, or empty for no TLS
	Within          time.Duration // how long an answer may take, or 0 for answerWithin
	MostConnections int
	Log             *slog.Logger
}

// Server is a server of HTTP/1.1, whose connections have one request at a time.
type Server struct {
	http        *http.Server
	listener    net.Listener
	within      time.Duration
	connections *connections
}

// Listen returns a server, or the *net.OpError of listening.
func Listen(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, within: cmp.Or(o.Within, answerWithin),
		connections: &connections{most: o.MostConnections, open: map[net.Conn]connectionState{}}}
	s.http = &http.Server{ReadTimeout: readWithin, WriteTimeout: s.within, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: mostHeader, Protocols: new(http.Protocols),
		ConnState: s.connections.changed,
		ErrorLog:  slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	s.http.Protocols.SetHTTP1(true)
	if o.TLSCert != "" {
		c := certificate{certFile: o.TLSCert, keyFile: o.TLSKey, log: o.Log}
		s.http.TLSConfig = &tls.Config{GetCertificate: c.load, MinVersion: tls.VersionTLS12}
	}
	return s, nil
}

// Serve answers until Close.
func (s *Server) Serve(h http.Handler) {
	s.http.Handler = h
	if s.http.TLSConfig != nil {
		_ = s.http.ServeTLS(s.listener, "", "")
		return
	}
	_ = s.http.Serve(s.listener)
}

// Addr returns the server's address, with the chosen port if it was 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the server's URL, without a path.
func (s *Server) URL() string {
	if s.http.TLSConfig != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Close stops the server. It waits up to a second for running requests, and then ends them.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	defer s.connections.closeHijacked()
	if err := s.http.Shutdown(ctx); err == nil {
		return nil
	}
	return s.http.Close()
}

// Long lets answers last for as long as their client reads them.
func (s *Server) Long(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.ContentLength == 0 {
			_ = c.SetReadDeadline(time.Time{}) // only the end of the connection is still to be read
		}
		l := &long{w, c, s.within, s.connections}
		next.ServeHTTP(l, r)
		l.extend() // for the answer's end, which is written after this
	})
}

// long is a ResponseWriter with a deadline for each part of the answer, not for all of it.
type long struct {
	http.ResponseWriter
	control     *http.ResponseController
	within      time.Duration
	connections *connections
}

func (l *long) extend() { _ = l.control.SetWriteDeadline(time.Now().Add(l.within)) }

func (l *long) Write(part []byte) (int, error) {
	l.extend()
	return l.ResponseWriter.Write(part)
}

// FlushError is for http.ResponseController.
func (l *long) FlushError() error {
	l.extend()
	return l.control.Flush()
}

func (l *long) Unwrap() http.ResponseWriter { return l.ResponseWriter }
