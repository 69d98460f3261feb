package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"kubecdc/config"
)

// Server answers /healthz, /readyz and /metrics.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Serve starts a server on the address (KUBECDC_LISTEN). It returns a *config.Error if it can't listen there. For "off" it
// returns a nil server, whose methods can be called.
func Serve(listen string, m *Metrics, h *Health) (*Server, error) {
	if listen == "off" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, &config.Error{Problems: []config.Problem{listenProblem(listen, err)}}
	}
	s := &Server{listener: listener, http: &http.Server{Handler: handler(m, h), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = s.http.Serve(listener) }() // ends with Close
	return s, nil
}

func listenProblem(listen string, err error) config.Problem {
	p := config.Problem{Setting: "KUBECDC_LISTEN", Value: listen, What: err.Error(), Fix: "choose another address, or off"}
	if errors.Is(err, syscall.EADDRINUSE) {
		p.What, p.Fix = "another process listens there already", "end it, or choose another port, such as :8081, or off"
	}
	return p
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

func handler(m *Metrics, h *Health) http.Handler {
	m.health.Store(h)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, h.Report()) })
	mux.Handle("GET /metrics", m.Handler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "kubecdc exporter: /healthz /readyz /metrics")
	})
	return mux
}

func answerReady(w http.ResponseWriter, r Report) {
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(r)
}
