package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"kubecdc/internal/kubeapi"
)

// Reviews lets the API server decide, as it does for its own requests. A TokenReview returns the user whose token it is. A
// SubjectAccessReview returns whether that user has the right to the resource, or to the path (nonResourceURLs in a ClusterRole).
type Reviews struct {
	tokens, access, asClient rest.Interface // asClient has no credentials of its own
	now                      func() time.Time
	// Refusals have a cache of their own, so that an attacker's wrong tokens evict no answer that allows.
	allowed *lru.Cache[reviewed, time.Time] // time of the answer
	refused *lru.Cache[reviewed, refusal]
	// unknown has a place for each review of a token that was not allowed before. So such reviews wait here, and do not fill the
	// clients' rate limits, which would delay the others.
	unknown chan struct{}
}

// ReviewRights are the rights that reviews need. The ClusterRole system:auth-delegator has the same.
var ReviewRights = []rbacv1.PolicyRule{
	{APIGroups: []string{authentication.GroupName}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{authorization.GroupName}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
}

// reviewed is the hash of a token and a right. It is a hash so that a token is in memory only during its request.
type reviewed [sha256.Size]byte

func hashOf(token string, asked *Asked) reviewed {
	text, _ := json.Marshal(asked) // can't fail: it has only texts and maps of texts
	return sha256.Sum256(fmt.Appendf(text, " %s", token))
}

type refusal struct {
	err  error
	time time.Time
}

// An answer is used for these times. While the API server does not answer, one that allowed is used for longer, since metrics are
// needed most then.
const (
	allowedFor       = time.Minute
	refusedFor       = 5 * time.Second
	allowedForOutage = 15 * time.Minute
	mostAnswers      = 1000 // in each cache
	mostUnknown      = 8
	reviewTimeout    = 5 * time.Second
)

// NewReviews returns Reviews by the API server of a config. It makes no request.
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
	asClient, err := kubeapi.Group(rest.AnonymousClientConfig(config), authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("prepare the reviews of clients: %w", err)
	}
	allowed, err1 := lru.New[reviewed, time.Time](mostAnswers)
	refused, err2 := lru.New[reviewed, refusal](mostAnswers)
	return &Reviews{tokens: tokens, access: access, asClient: asClient, now: time.Now, allowed: allowed, refused: refused,
		unknown: make(chan struct{}, mostUnknown)}, errors.Join(err1, err2)
}

// Allow asks the API server, unless an answer is cached.
func (r *Reviews) Allow(ctx context.Context, token string, asked Asked) error {
	question := hashOf(token, &asked)
	answered, known := r.allowed.Get(question)
	age := r.now().Sub(answered)
	if known && age < allowedFor {
		return nil
	}
	if last, known := r.refused.Get(question); known && r.now().Sub(last.time) < refusedFor {
		return last.err
	}
	err, failed := r.ask(ctx, token, &asked, known)
	switch {
	case failed != nil && known && age < allowedForOutage:
		return nil
	case failed != nil:
		return failed
	case err != nil:
		r.allowed.Remove(question)
		r.refused.Add(question, refusal{err, r.now()})
	default:
		r.refused.Remove(question)
		r.allowed.Add(question, r.now())
	}
	return err
}

const needs = "the exporter's user needs the ClusterRole system:auth-delegator"

// ask returns the API server's decision, or why there is none. known is true if it allowed the same before.
func (r *Reviews) ask(ctx context.Context, token string, asked *Asked, known bool) (decision, failed error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout) // also for the waits before a request is sent
	defer cancel()
	if !known {
		select {
		case r.unknown <- struct{}{}:
			defer func() { <-r.unknown }()
		case <-ctx.Done():
			return nil, fmt.Errorf("review a token: %d others have waited for %s: %w", mostUnknown, reviewTimeout, ctx.Err())
		}
	}
	user, decision, failed := r.user(ctx, token, asked)
	if decision != nil || failed != nil {
		return decision, failed
	}
	user.ResourceAttributes, user.NonResourceAttributes = asked.ResourceAttributes, asked.NonResourceAttributes
	return r.review(ctx, user)
}

// user returns who the bearer of a token is, or whom the bearer may impersonate.
func (r *Reviews) user(ctx context.Context, token string, asked *Asked) (user Asked, decision, failed error) {
	var who authentication.TokenReview
	err := r.tokens.Post().Resource("tokenreviews").
		Body(&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}).Do(ctx).Into(&who)
	if err != nil {
		return user, nil, fmt.Errorf("review a token (%s): %w", needs, err)
	}
	if !who.Status.Authenticated {
		return user, ErrUnknownToken, nil
	}
	user = Asked{User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups,
		Extra: map[string]authorization.ExtraValue{}}
	for key, values := range who.Status.User.Extra {
		user.Extra[key] = authorization.ExtraValue(values)
	}
	for _, right := range impersonations(asked) {
		user.ResourceAttributes = right
		if decision, failed = r.review(ctx, user); decision != nil || failed != nil {
			return user, decision, failed
		}
	}
	if asked.User != "" {
		user = *asked
		user.Groups = groupsOf(asked)
	}
	return user, nil, nil
}

// review asks the API server whether a user has one right.
func (r *Reviews) review(ctx context.Context, asked Asked) (decision, failed error) {
	var may authorization.SubjectAccessReview
	err := r.access.Post().Resource("subjectaccessreviews").Body(&authorization.SubjectAccessReview{Spec: asked}).Do(ctx).Into(&may)
	if err != nil {
		return nil, fmt.Errorf("review the rights of %s (%s): %w", asked.User, needs, err)
	}
	if !may.Status.Allowed {
		return ErrNotAllowed, nil
	}
	return nil, nil
}
