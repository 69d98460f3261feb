package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"kubecdc/internal/plain"
	"kubecdc/internal/web"
	"kubecdc/status"
)

// Server serves the status page, /metrics, /healthz and /readyz.
type Server struct {
	*web.Server
	access web.Access // nil: everyone
	log    *slog.Logger
}

// ServerOptions are a server's settings.
type ServerOptions struct {
	web.Options
	Access web.Access   // nil: everyone
	Audit  http.Handler // accepts audit events; nil: none
	// AuditAccess decides who may deliver them.
	AuditAccess web.Access
}

// mostConnections is how many connections the server accepts. Open status pages may use half of them.
const mostConnections = 100

// Serve starts a server, or returns the *net.OpError of listening. For the address "off" it returns a nil server, whose methods
// may be called.
func Serve(o ServerOptions, m *Metrics, page *Status) (*Server, error) {
	if o.Listen == "off" {
		return nil, nil
	}
	o.MostConnections = mostConnections
	l, err := web.Listen(o.Options)
	if err != nil {
		return nil, err
	}
	s := &Server{Server: l, access: o.Access, log: o.Log}
	go s.Serve(s.audited(o, web.Bodiless(s.handler(m, page)))) // Close ends it
	return s, nil
}

// AuditPath is the path to which the API server's webhook sends audit events.
const AuditPath = "/audit"

// audited handles audit events, the only requests with a body. It reads no byte of the body before it knows the sender.
func (s *Server) audited(o ServerOptions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Audit == nil || r.URL.Path != AuditPath || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if err := web.MayGet(o.AuditAccess, r, AuditPath); err != nil {
			if !errors.Is(err, web.ErrUnknownToken) {
				s.log.Warn("the token of the audit webhook can't be checked", "error", err)
			}
			web.Refuse(w, "the token of KUBECDC_AUDIT_TOKEN_FILE is needed", http.StatusUnauthorized)
			return
		}
		o.Audit.ServeHTTP(w, r)
	})
}

// Addr returns the server's address, with the chosen port if it was 0.
func (s *Server) Addr() string {
	if s == nil {
		return ""
	}
	return s.Server.Addr()
}

// Close stops the server. It waits up to a second for running requests.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return s.Server.Close()
}

// Guard passes permitted requests on.
func Guard(access web.Access, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := web.MayGet(access, r, r.URL.Path)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, web.ErrUnknownToken):
			web.Challenge(w.Header())
			http.Error(w, "a bearer token is needed that is known here: see KUBECDC_HTTP_ACCESS", http.StatusUnauthorized)
		case errors.Is(err, web.ErrNotAllowed):
			http.Error(w, "the bearer of this token may not get "+r.URL.Path+": see KUBECDC_HTTP_ACCESS", http.StatusForbidden)
		default:
			log.Warn("a request could not be checked", "path", r.URL.Path, "error", err)
			http.Error(w, "the token can't be checked now: the exporter's log says why", http.StatusServiceUnavailable)
		}
	})
}

// detailsPath is the path to which a reader of /readyz's details needs a right. Every account of a cluster may get /readyz itself
// (ClusterRole system:discovery).
const detailsPath = "/kubecdc/readyz"

func (s *Server) handler(m *Metrics, page *Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := status.ReportOf(page.Snapshot())
		if web.MayGet(s.access, r, detailsPath) == nil {
			answerReady(w, report.Ready, report.Short())
			return
		}
		answerReady(w, report.Ready, map[string]bool{"ready": report.Ready}) // the problems name streams and servers
	})
	mux.Handle("GET /metrics", Guard(s.access, s.log, m.Handler()))
	mux.Handle("GET /", Guard(s.access, s.log, status.Handler(page.Now)))
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
