package observe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"kubecdc/internal/kubeapi"
)

// Reviews lets the API server decide, as it does for its own URLs: a TokenReview says whose token it is, and a
// SubjectAccessReview whether that user may get the path (nonResourceURLs in a ClusterRole).
type Reviews struct {
	tokens, access rest.Interface
	now            func() time.Time
	answers        *lru.Cache[reviewed, answer]
}

// ReviewRights are what reviews need. The ClusterRole system:auth-delegator has the same.
var ReviewRights = []rbacv1.PolicyRule{
	{APIGroups: []string{authentication.GroupName}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{authorization.GroupName}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
}

// reviewed is a question that has an answer. It has no token, which should be in memory only as long as its request.
type reviewed struct {
	token [sha256.Size]byte
	path  string
}

type answer struct {
	err error // nil: allowed
	at  time.Time
}

// An answer is used for so long. While the API server does not answer, one that allowed is used for longer: that is when the
// metrics are needed most.
const (
	allowedFor       = time.Minute
	refusedFor       = 5 * time.Second
	allowedForOutage = 15 * time.Minute
	mostAnswers      = 1000
	reviewTimeout    = 5 * time.Second
)

// NewReviews makes no request.
func NewReviews(config *rest.Config) (*Reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = 50, 100, reviewTimeout
	tokens, err := kubeapi.Group(config, authentication.SchemeGroupVersion, authentication.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("prepare TokenReviews: %w", err)
	}
	access, err := kubeapi.Group(config, authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("prepare SubjectAccessReviews: %w", err)
	}
	answers, err := lru.New[reviewed, answer](mostAnswers)
	return &Reviews{tokens: tokens, access: access, now: time.Now, answers: answers}, err
}

// Allow asks the API server, unless it has answered a short time ago.
func (r *Reviews) Allow(ctx context.Context, token, path string) error {
	question := reviewed{sha256.Sum256([]byte(token)), path}
	last, known := r.answers.Get(question)
	age := r.now().Sub(last.at)
	if known && (last.err == nil && age < allowedFor || last.err != nil && age < refusedFor) {
		return last.err
	}
	err, asked := r.ask(ctx, token, path)
	switch {
	case asked == nil:
		r.answers.Add(question, answer{err, r.now()})
		return err
	case known && last.err == nil && age < allowedForOutage:
		return nil
	}
	return asked
}

const needs = "the exporter's user needs the ClusterRole system:auth-delegator"

// ask returns the API server's decision, or why there is none.
func (r *Reviews) ask(ctx context.Context, token, path string) (decision, failed error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout) // also for the wait until the client may send another request
	defer cancel()
	var who authentication.TokenReview
	err := r.tokens.Post().Resource("tokenreviews").
		Body(&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}).Do(ctx).Into(&who)
	if err != nil {
		return nil, fmt.Errorf("review a token (%s): %w", needs, err)
	}
	if !who.Status.Authenticated {
		return errUnknownToken, nil
	}
	user := who.Status.User
	extra := map[string]authorization.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorization.ExtraValue(values)
	}
	var may authorization.SubjectAccessReview
	err = r.access.Post().Resource("subjectaccessreviews").Body(&authorization.SubjectAccessReview{
		Spec: authorization.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"}}}).Do(ctx).Into(&may)
	if err != nil {
		return nil, fmt.Errorf("review the rights of %s (%s): %w", user.Username, needs, err)
	}
	if !may.Status.Allowed {
		return errNotAllowed, nil
	}
	return nil, nil
}
