package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/internal/plain"
	"kubecdc/internal/web"
)

// review is what a client asks before it shows anything: what it may do, and who it is (kubectl auth, k9s, Headlamp, Lens). It
// asks by POST, and nothing is written. Where the API server decides on rights it also answers here, as far as the answer is
// about reading.
type review interface {
	runtime.Object
	Unmarshal([]byte) error
	// answer sets the status, and replaces one that the client has sent. forward sends the review to the API server for the
	// client, and adds the answer to the review. forward is nil if no API server decides: then everybody who may ask may read
	// everything.
	answer(s *Server, r *http.Request, q *request, forward func() error) error
}

func (q *request) isReview() bool {
	asked, _ := q.newReview()
	return asked != nil
}

// newReview returns a review of the kind that a request posts, or nil.
func (q *request) newReview() (review, schema.GroupVersionKind) {
	rights := authorization.SchemeGroupVersion
	switch (schema.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}) {
	case rights.WithResource("selfsubjectaccessreviews"):
		return &mayI{}, rights.WithKind("SelfSubjectAccessReview")
	case rights.WithResource("localsubjectaccessreviews"):
		return &maySomebody{}, rights.WithKind("LocalSubjectAccessReview")
	case rights.WithResource("selfsubjectrulesreviews"):
		return &whatMayI{}, rights.WithKind("SelfSubjectRulesReview")
	case authentication.SchemeGroupVersion.WithResource("selfsubjectreviews"):
		return &whoAmI{}, authentication.SchemeGroupVersion.WithKind("SelfSubjectReview")
	}
	return nil, schema.GroupVersionKind{}
}

// largestReview is the maximum size of a review in bytes.
const largestReview = 64 << 10

func (s *Server) review(w http.ResponseWriter, r *http.Request, q *request) error {
	if err := s.may(r, q, web.Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/api",
		Verb: "get"}}); err != nil {
		return err // without a token nothing is read
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	asked, kind := q.newReview()
	if envelope, isProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); isProtobuf {
		var object runtime.Unknown
		if err = object.Unmarshal(envelope); err == nil {
			err = asked.Unmarshal(object.Raw)
		}
	} else {
		err = json.Unmarshal(body, asked)
	}
	if err != nil {
		return apierrors.NewBadRequest("the review: " + err.Error())
	}
	asked.GetObjectKind().SetGroupVersionKind(kind)
	var forward func() error
	if server, decides := s.access.(web.Reviewer); decides {
		forward = func() error { return server.Forward(r, q.path, asked) }
	}
	if err := asked.answer(s, r, q, forward); err != nil {
		return err
	}
	return reply(w, q.media, http.StatusCreated, asked)
}

// reads reports whether a right is one to read objects.
func reads(a *authorization.ResourceAttributes) bool {
	return a != nil && slices.Contains(verbs, a.Verb) &&
		(a.Subresource == "" || a.Verb == "get" && slices.Contains(parts, a.Subresource))
}

// parts are the subresources that are served.
var parts = []string{"scale", "status"}

var onlyRead = authorization.SubjectAccessReviewStatus{Reason: "this is the log of a cluster, of which only objects can be read"}

type mayI struct {
	authorization.SelfSubjectAccessReview
}

func (m *mayI) answer(s *Server, r *http.Request, q *request, _ func() error) error {
	m.Status = onlyRead
	if a := m.Spec.ResourceAttributes; reads(a) {
		err := s.may(r, q, web.Asked{ResourceAttributes: a})
		m.Status = authorization.SubjectAccessReviewStatus{Allowed: err == nil}
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// maySomebody asks for another user.
type maySomebody struct {
	authorization.LocalSubjectAccessReview
}

func (m *maySomebody) answer(_ *Server, _ *http.Request, _ *request, forward func() error) error {
	if m.Status = onlyRead; !reads(m.Spec.ResourceAttributes) {
		return nil
	}
	m.Status = authorization.SubjectAccessReviewStatus{Allowed: forward == nil}
	if forward != nil {
		return forward()
	}
	return nil
}

// whatMayI asks for all rights in a namespace.
type whatMayI struct {
	authorization.SelfSubjectRulesReview
}

func (m *whatMayI) answer(_ *Server, _ *http.Request, _ *request, forward func() error) error {
	if m.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	m.Status = authorization.SubjectRulesReviewStatus{}
	if forward == nil {
		all := []string{"*"}
		m.Status.ResourceRules = []authorization.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}}
		m.Status.NonResourceRules = []authorization.NonResourceRule{{Verbs: all, NonResourceURLs: all}}
	} else if err := forward(); err != nil {
		m.Status = authorization.SubjectRulesReviewStatus{Incomplete: true, EvaluationError: plain.Redact(err.Error())}
	}
	resources, paths := []authorization.ResourceRule{}, []authorization.NonResourceRule{}
	for _, rule := range m.Status.ResourceRules {
		rule.Verbs = retained(rule.Verbs, verbs)
		rule.Resources = slices.DeleteFunc(rule.Resources, func(r string) bool {
			_, part, isPart := strings.Cut(r, "/")
			return isPart && !slices.Contains(parts, part)
		})
		if len(rule.Verbs) > 0 && len(rule.Resources) > 0 {
			resources = append(resources, rule)
		}
	}
	for _, rule := range m.Status.NonResourceRules {
		if rule.Verbs = retained(rule.Verbs, verbs[:1]); len(rule.Verbs) > 0 {
			paths = append(paths, rule)
		}
	}
	m.Status.ResourceRules, m.Status.NonResourceRules = resources, paths
	return nil
}

// retained returns the verbs of some that a rule has too.
func retained(rule, some []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(verb string) bool {
		return !slices.Contains(rule, verb) &&
			!slices.Contains(rule, "*")
	})
}

type whoAmI struct {
	authentication.SelfSubjectReview
}

func (m *whoAmI) answer(s *Server, r *http.Request, q *request, _ func() error) error {
	m.Status.UserInfo = authentication.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	switch access := s.access.(type) {
	case nil:
	case web.Reviewer:
		user, err := access.Who(r)
		if err != nil {
			return s.decided(r, q, err)
		}
		m.Status.UserInfo = user
	default:
		m.Status.UserInfo = authentication.UserInfo{Username: "the bearer of KUBECDC_HTTP_TOKEN_FILE",
			Groups: []string{"system:authenticated"}}
	}
	m.CreationTimestamp = metav1.NewTime(s.now())
	return nil
}
