package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"kubecdc/internal/kubeapi"
)

// Reviews lets the API server decide, as it does for its own requests. A TokenReview returns the user to whom the token belongs.
// A SubjectAccessReview returns whether that user has the right to the resource, or to the path (nonResourceURLs in a
// ClusterRole).
type Reviews struct {
	tokens, access, asClient rest.Interface // asClient has no credentials of its own
	now                      func() time.Time
	// Refusals have a cache of their own, so that an attacker's wrong tokens evict no answer that allows, and no user.
	users   *lru.Cache[reviewed, user]      // by token
	allowed *lru.Cache[reviewed, time.Time] // time of the token's review
	refused *lru.Cache[reviewed, refusal]
	// places are for the reviews at once. A user with many questions waits here, and does not fill the clients' rate limits,
	// which would delay the others. Tokens that were never seen count as the tokens of one user, "".
	places *Shares
	// by question, and by token. One review answers all who ask the same at once, such as informers at their start
	asking singleflight.Group
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

// user is the bearer of a token.
type user struct {
	Asked
	time time.Time // when the token was reviewed
}

type refusal struct {
	err  error
	time time.Time
}

// An answer is used for these times. While the API server does not answer, an answer that allowed access is used for longer,
// since people need metrics most at that time.
const (
	allowedFor       = time.Minute
	refusedFor       = 5 * time.Second
	allowedForOutage = 15 * time.Minute
	mostAnswers      = 1000 // in each cache
	mostReviews      = 16
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
	asClient, err := kubeapi.Group(rest.AnonymousClientConfig(config), authorization.SchemeGroupVersion,
		authorization.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("prepare the reviews of clients: %w", err)
	}
	users, err1 := lru.New[reviewed, user](mostAnswers)
	allowed, err2 := lru.New[reviewed, time.Time](mostAnswers)
	refused, err3 := lru.New[reviewed, refusal](mostAnswers)
	return &Reviews{tokens: tokens, access: access, asClient: asClient, now: time.Now, users: users, allowed: allowed,
		refused: refused,
		places:  NewShares(mostReviews)}, errors.Join(err1, err2, err3)
}

// Allow asks the API server, unless an answer is cached.
func (r *Reviews) Allow(ctx context.Context, token string, asked Asked) error {
	question := hashOf(token, &asked)
	if answered, known := r.allowed.Get(question); known && r.now().Sub(answered) < allowedFor {
		return nil
	}
	if last, known := r.refused.Get(question); known && r.now().Sub(last.time) < refusedFor {
		return last.err
	}
	_, err := once(ctx, r, question, func(ctx context.Context) (any, error) {
		return nil,
			r.decide(ctx, question, token, &asked)
	})
	return err
}

// once does something that many may ask for at once. It goes on when the first of them leaves.
func once[T any](ctx context.Context, r *Reviews, key reviewed, do func(context.Context) (T, error)) (answer T, err error) {
	done := r.asking.DoChan(string(key[:]), func() (any, error) {
		// also for the waits before a request is sent
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return do(ctx)
	})
	select {
	case a := <-done:
		answer, _ = a.Val.(T)
		return answer, a.Err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// place waits for a place for a user's review.
func (r *Reviews) place(ctx context.Context, user string) (leave func(), err error) {
	if err := r.places.Acquire(ctx, user, 1); err != nil {
		return nil, fmt.Errorf("ask the API server for a review: others of the same user, or of tokens that were never seen, "+
			"have waited for %s: %w",
			reviewTimeout, err)
	}
	return func() { r.places.Release(user, 1) }, nil
}

// decide asks the API server, and keeps its answer. While it does not answer, a right that it has allowed remains for a while.
func (r *Reviews) decide(ctx context.Context, question reviewed, token string, asked *Asked) error {
	u, decision, failed := r.sender(ctx, token, asked)
	if decision == nil && failed == nil {
		u.ResourceAttributes, u.NonResourceAttributes = asked.ResourceAttributes, asked.NonResourceAttributes
		decision, failed = r.review(ctx, r.nameOf(token), u.Asked)
	}
	answered, known := r.allowed.Get(question)
	switch {
	case failed != nil && known && r.now().Sub(answered) < allowedForOutage:
		return nil
	case failed != nil:
		return failed
	case decision != nil:
		r.allowed.Remove(question)
		r.refused.Add(question, refusal{decision, r.now()})
	default:
		r.refused.Remove(question)
		r.allowed.Add(question, u.time)
	}
	return decision
}

const needs = "the exporter's user needs the ClusterRole system:auth-delegator"

// bearer returns the user to whom the token belongs.
func (r *Reviews) bearer(ctx context.Context, token string) (u user, decision, failed error) {
	hash := hashOf(token, nil)
	if known, seen := r.users.Get(hash); seen && r.now().Sub(known.time) < allowedFor {
		return known, nil, nil
	}
	u, err := once(ctx, r, hash, func(ctx context.Context) (user, error) { return r.reviewToken(ctx, hash, token) })
	if errors.Is(err, ErrUnknownToken) {
		return u, err, nil
	}
	return u, nil, err
}

func (r *Reviews) reviewToken(ctx context.Context, hash reviewed, token string) (u user, err error) {
	leave, err := r.place(ctx, r.nameOf(token))
	if err != nil {
		return u, err
	}
	defer leave()
	var who authentication.TokenReview
	now := r.now()
	err = r.tokens.Post().Resource("tokenreviews").
		Body(&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}).Do(ctx).Into(&who)
	switch {
	case err != nil:
		return u, fmt.Errorf("review a token (%s): %w", needs, err)
	case !who.Status.Authenticated:
		r.users.Remove(hash)
		return u, ErrUnknownToken
	}
	u = user{Asked{User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups,
		Extra: map[string]authorization.ExtraValue{}}, now}
	for key, values := range who.Status.User.Extra {
		u.Extra[key] = authorization.ExtraValue(values)
	}
	r.users.Add(hash, u)
	return u, nil
}

// nameOf returns the name of the user to whom the token belongs, or "" if no review has found the user.
func (r *Reviews) nameOf(token string) string {
	u, _ := r.users.Peek(hashOf(token, nil))
	return u.User
}

// sender returns the bearer of a token, or the user whom the bearer may impersonate.
func (r *Reviews) sender(ctx context.Context, token string, asked *Asked) (u user, decision, failed error) {
	if u, decision, failed = r.bearer(ctx, token); decision != nil || failed != nil {
		return u, decision, failed
	}
	for _, right := range impersonations(asked) {
		u.ResourceAttributes = right
		if decision, failed = r.review(ctx, u.User, u.Asked); decision != nil || failed != nil {
			return u, decision, failed
		}
	}
	if asked.User != "" {
		u.Asked = *asked
		u.Groups = groupsOf(asked)
	}
	return u, nil, nil
}

// review asks the API server for a sender whether a user has one right.
func (r *Reviews) review(ctx context.Context, sender string, asked Asked) (decision, failed error) {
	leave, err := r.place(ctx, sender)
	if err != nil {
		return nil, err
	}
	defer leave()
	var may authorization.SubjectAccessReview
	err =
		r.access.Post().Resource("subjectaccessreviews").Body(&authorization.SubjectAccessReview{Spec: asked}).Do(ctx).Into(&may)
	if err != nil {
		return nil, fmt.Errorf("review the rights of %s (%s): %w", asked.User, needs, err)
	}
	if !may.Status.Allowed {
		return ErrNotAllowed, nil
	}
	return nil, nil
}
