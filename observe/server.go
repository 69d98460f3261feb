package observe

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"kubecdc/internal/plain"
	"kubecdc/status"
)

// Server serves the status page, /metrics, /healthz and /readyz.
type Server struct {
	http     *http.Server
	listener net.Listener
	access   Access // nil: everyone
	log      *slog.Logger
}

// ServerOptions is what a server needs besides what it shows.
type ServerOptions struct {
	Listen  string // KUBECDC_LISTEN
	TLSCert string // file; empty: no TLS
	TLSKey  string
	Access  Access // nil: everyone
	Log     *slog.Logger
	Audit   http.Handler // takes audit events; nil: none
	// AuditAccess says who may bring them.
	AuditAccess Access
	Within      time.Duration // how long an answer may take; 0: answerWithin
}

// answerWithin is how long an answer may take. Who does not read it for so long is disconnected.
const answerWithin = 30 * time.Second

// Serve starts a server, or returns the *net.OpError of listening. For "off" it returns a nil server, whose methods can be called.
func Serve(o ServerOptions, m *Metrics, page *Status) (*Server, error) {
	if o.Listen == "off" {
		return nil, nil
	}
	s := &Server{access: o.Access, log: o.Log}
	var err error
	if s.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, err
	}
	s.http = &http.Server{Handler: s.audited(o, bodiless(s.handler(m, page))), ReadTimeout: readWithin, WriteTimeout: cmp.Or(o.Within, answerWithin),
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeader, Protocols: new(http.Protocols),
		ConnState: (&connections{open: map[net.Conn]connectionState{}}).changed,
		ErrorLog:  slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	s.http.Protocols.SetHTTP1(true) // a connection has one request at a time
	serve := s.http.Serve
	if o.TLSCert != "" {
		c := certificate{certFile: o.TLSCert, keyFile: o.TLSKey, log: o.Log}
		s.http.TLSConfig = &tls.Config{GetCertificate: c.load, MinVersion: tls.VersionTLS12}
		serve = func(on net.Listener) error { return s.http.ServeTLS(on, "", "") }
	}
	go func() { _ = serve(s.listener) }() // ends with Close
	return s, nil
}

// AuditPath is where the API server's webhook brings audit events.
const AuditPath = "/audit"

// audited passes on the only requests that have a body, once it is known who brings it. Of any other it reads no byte.
func (s *Server) audited(o ServerOptions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Audit == nil || r.URL.Path != AuditPath || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if err := may(o.AuditAccess, r, AuditPath); err != nil {
			if !errors.Is(err, errUnknownToken) {
				s.log.Warn("the token of the audit webhook can't be checked", "error", err)
			}
			refuse(w, "the token of KUBECDC_AUDIT_TOKEN_FILE is needed", http.StatusUnauthorized)
			return
		}
		o.Audit.ServeHTTP(w, r)
	})
}

// Addr is the server's address, with the chosen port if it was 0.
func (s *Server) Addr() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close stops the server. It waits up to a second for running requests.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.http.Shutdown(ctx)
}

// detailsPath is the path that a reader of what /readyz knows needs a right to. Every account of a cluster may get /readyz itself
// (ClusterRole system:discovery).
const detailsPath = "/kubecdc/readyz"

func (s *Server) handler(m *Metrics, page *Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := status.ReportOf(page.Exporter.Snapshot())
		if may(s.access, r, detailsPath) == nil {
			answerReady(w, report.Ready, report.Short())
			return
		}
		answerReady(w, report.Ready, map[string]bool{"ready": report.Ready}) // what is wrong names streams and servers
	})
	mux.Handle("GET /metrics", s.guard(m.Handler()))
	mux.Handle("GET /", s.guard(status.Handler(page.Now)))
	return mux
}

func answerReady(w http.ResponseWriter, ready bool, answer any) {
	w.Header().Set("Content-Type", "application/json")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	e := json.NewEncoder(plain.JSONWriter(w))
	e.SetIndent("", "  ")
	_ = e.Encode(answer)
}
