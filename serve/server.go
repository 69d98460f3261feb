// Package serve serves a log by the Kubernetes API. kubectl, k9s and any client read a cluster's state at a moment, or follow its
// present state. The package reads by sinks.Reader and package query. It knows no sink, no checkpoint and no API server. Nothing
// can be written.
//
// A request is answered in four steps. Its path is parsed, with the moment (request.go). The resource is found in the catalog of
// that moment (catalog.go). The objects at the moment are read (view.go). They are written in the form that the client accepts
// (list.go, table.go, watch.go).
package serve

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"kubecdc/internal/plain"
	"kubecdc/internal/web"
	"kubecdc/sinks"
)

// Server serves one cluster's log.
type Server struct {
	log      sinks.Reader
	access   web.Access // or nil for everybody
	views    *views
	slog     *slog.Logger
	now      func() time.Time
	reviewed time.Duration // how often a watch's right is reviewed
}

// New returns a server of a log. access decides who may read it, or is nil for everybody. The caller closes the log.
func New(log sinks.Reader, access web.Access, logger *slog.Logger) *Server {
	return &Server{log: log, access: access, slog: logger, now: time.Now, reviewed: reviewInterval, views: newViews(log)}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.logPanic(r)
	err := s.answer(w, r)
	if err != nil && r.Context().Err() == nil {
		s.refuse(w, r, err)
	}
}

// logPanic logs a panic, and cuts the connection, so that no client takes the answer for a complete one.
func (s *Server) logPanic(r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.slog.Error("a question ended in a panic: please report it", "path", r.URL.Path, "panic", p, "stack",
			string(debug.Stack()))
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) error {
	q, err := s.parse(r)
	isReview := err == nil && r.Method == http.MethodPost && q.isReview()
	switch {
	case !isReview && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return refusal(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			r.Method+" is not possible: this is the log of a cluster, which can only be read")
	case err != nil:
		return err
	case isReview && q.wrong != nil:
		return q.wrong
	case isReview:
		return s.review(w, r, q)
	case q.path == "/healthz" || q.path == "/livez" || q.path == "/readyz":
		_, err := w.Write([]byte("ok"))
		return err
	}
	if q.isPage(r) {
		return s.page(w, r, q)
	}
	if err := s.may(r, q, q.asked()); err != nil {
		return err
	}
	switch {
	case q.path == "/":
		return s.paths(w, r, q)
	case q.path == "/version":
		if err := q.refused(r, true); err != nil {
			return err
		}
		return s.version(w)
	case strings.HasPrefix(q.path, "/openapi/v2"):
		return notFound("the server of a log has no " + q.path)
	}
	c, err := inTurn(r.Context(), s.views, func() (catalog, error) { return s.catalog(r.Context(), q) })
	if err != nil {
		return err
	}
	if path, isOpenAPI := strings.CutPrefix(q.path, "/openapi/v3"); isOpenAPI {
		return s.schemas(w, r, q, c, strings.Trim(path, "/"))
	}
	if q.plural == "" {
		return s.discover(w, r, q, c)
	}
	served := c.find(q.group, q.version, q.plural)
	if served == nil || q.part != "" && !slices.Contains(served.Parts, q.part) || served.Namespaced && q.namespace == "" &&
		q.name != "" || !served.Namespaced && q.isNamespaced {
		return notFound("the server could not find the requested resource: the log has no " + q.plural + " of " +
			schema.GroupVersion{Group: q.group, Version: q.version}.String())
	}
	if err := q.refused(r, builtin()[served.ID()] != nil); err != nil {
		return err
	}
	return s.objects(w, r, q, served)
}

func (s *Server) objects(w http.ResponseWriter, r *http.Request, q *request, resource *served) error {
	v, err := inTurn(r.Context(), s.views, func() (*view, error) { return s.views.viewOf(r.Context(), q, resource.logged()) })
	if err != nil {
		return err
	}
	switch {
	case q.Watch:
		return s.watch(w, r, q, resource, v)
	case q.name != "":
		return s.get(w, r, q, resource, v)
	}
	return s.list(w, r, q, resource, v)
}

// version answers with an API server's version, since clients expect one.
func (s *Server) version(w http.ResponseWriter) error {
	return reply(w, media{isPretty: true}, http.StatusOK,
		version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0-kubecdc", Platform: "a log"})
}

func notFound(message string) error {
	return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, message)
}

// expired returns the API server's error 410, with the reason.
func expired(err error) error {
	return refusal(http.StatusGone, metav1.StatusReasonExpired, "the log can't tell: "+err.Error())
}

func refusal(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: message}}
}

// refuse answers with the Status of an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := s.statusOf(err)
	if status.Code == http.StatusUnauthorized {
		web.Challenge(w.Header())
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	_, m, _ := accepted(r, plainForms)
	_ = reply(w, m, int(status.Code), status)
}

// statusOf returns the Status of an error. It logs errors that are not the client's.
func (s *Server) statusOf(err error) *metav1.Status {
	known, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		s.slog.Warn("a question could not be answered", "error", err)
		known = apierrors.NewInternalError(errors.New(plain.Redact(err.Error())))
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

func reply(w http.ResponseWriter, m media, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(w, m, code, body)
}

func write(w http.ResponseWriter, m media, code int, body []byte) error {
	out := m.encoder(w, code)
	if _, err := out.Write(append(body, '\n')); err != nil {
		return err
	}
	return out.Close()
}
