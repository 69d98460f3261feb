package serve

import (
	"errors"
	"net/http"

	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/internal/web"
)

// may returns an error unless the sender of a request has a right.
func (s *Server) may(r *http.Request, q *request, asked web.Asked) error {
	return s.decided(r, q, web.May(s.access, r, asked))
}

// decided returns the API server's error for one of web.May.
func (s *Server) decided(r *http.Request, q *request, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, web.ErrUnknownToken):
		return apierrors.NewUnauthorized("a bearer token is needed that is known here: see KUBECDC_HTTP_ACCESS")
	case errors.Is(err, web.ErrNotAllowed):
		return apierrors.NewForbidden(schema.GroupResource{Group: q.group, Resource: q.plural}, q.name,
			errors.New("see KUBECDC_HTTP_ACCESS"))
	case errors.Is(err, web.ErrCrowded):
		return crowded()
	case r.Context().Err() != nil:
		return err
	}
	s.slog.Warn("a request could not be checked", "path", q.path, "error", err)
	return apierrors.NewServiceUnavailable("the token can't be checked now: the log of exporter serve says why")
}

// crowded returns an error after which clients ask again.
func crowded() error {
	refused := apierrors.NewServiceUnavailable(web.ErrCrowded.Error())
	refused.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return refused
}

// asked returns the right that the API server would demand for a request.
func (q *request) asked() web.Asked {
	if q.plural == "" {
		return web.Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: q.path, Verb: "get"}}
	}
	a := &authorization.ResourceAttributes{Verb: "get", Group: q.group, Version: q.version, Resource: q.plural,
		Subresource: q.part, Namespace: q.namespace, Name: q.only()}
	if q.name == "" {
		a.Verb = "list"
	}
	if q.Watch || q.isWatch {
		a.Verb = "watch"
	}
	if a.Group == "" && a.Resource == "namespaces" {
		a.Namespace = q.name // a Role in it may grant it
	}
	return web.Asked{ResourceAttributes: a}
}
