package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/internal/web"
)

// may returns an error unless the sender of a request has a right.
func (s *Server) may(r *http.Request, q *request, asked web.Asked) error {
	err := web.May(s.access, r, asked)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, web.ErrUnknownToken):
		return apierrors.NewUnauthorized("a bearer token is needed that is known here: see KUBECDC_HTTP_ACCESS")
	case errors.Is(err, web.ErrNotAllowed):
		return apierrors.NewForbidden(schema.GroupResource{Group: q.group, Resource: q.plural}, q.name, errors.New("see KUBECDC_HTTP_ACCESS"))
	}
	s.slog.Warn("a request could not be checked", "path", q.path, "error", err)
	return apierrors.NewServiceUnavailable("the token can't be checked now: the log of exporter serve says why")
}

// asked returns the right that the API server would demand for a request.
func (q *request) asked() web.Asked {
	if q.plural == "" {
		return web.Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: q.path, Verb: "get"}}
	}
	a := &authorization.ResourceAttributes{Verb: "get", Group: q.group, Version: q.version, Resource: q.plural, Namespace: q.namespace, Name: q.only()}
	if q.name == "" {
		a.Verb = "list"
	}
	if q.Watch {
		a.Verb = "watch"
	}
	if a.Group == "" && a.Resource == "namespaces" {
		a.Namespace = q.name // a Role in it may grant it
	}
	return web.Asked{ResourceAttributes: a}
}

// reviewPath is the path of clients that ask what they may do: k9s and kubectl auth can-i. They ask by POST, and nothing is written.
const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// largestReview is the maximum size of a review in bytes.
const largestReview = 64 << 10

// review answers whether a client may do something. It may only read what it could request.
func (s *Server) review(w http.ResponseWriter, r *http.Request, q *request) error {
	if err := s.may(r, q, web.Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/api", Verb: "get"}}); err != nil {
		return err // without a token nothing is read
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var review authorization.SelfSubjectAccessReview
	if envelope, isProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); isProtobuf {
		var object runtime.Unknown
		if err = object.Unmarshal(envelope); err == nil {
			err = review.Unmarshal(object.Raw)
		}
	} else {
		err = json.Unmarshal(body, &review)
	}
	a := review.Spec.ResourceAttributes
	switch {
	case err != nil:
		return apierrors.NewBadRequest("the review: " + err.Error())
	case a == nil || a.Subresource != "" || !slices.Contains(verbs, a.Verb):
		review.Status.Reason = "this is the log of a cluster, of which only objects can be read"
	default:
		err = s.may(r, q, web.Asked{ResourceAttributes: a})
		if review.Status.Allowed = err == nil; err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	review.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: authorization.SchemeGroupVersion.String()}
	return reply(w, http.StatusCreated, &review)
}
