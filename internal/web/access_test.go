package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func path(path string) Asked {
	return Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"}}
}

func resource(verb, plural, namespace, name string) Asked {
	return Asked{ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Version: "v1", Resource: plural, Namespace: namespace, Name: name}}
}

// reviewsAs returns reviews by a user, with a clock.
func reviewsAs(t *testing.T, config *rest.Config) (*Reviews, *time.Time) {
	t.Helper()
	r, err := NewReviews(config)
	must(t, err)
	now := time.Now()
	r.now = func() time.Time { return now }
	return r, &now
}

// grantAll grants the rights that TestTheAPIServerDecides needs.
func grantAll(t *testing.T, kube *servers.Kubernetes) {
	t.Helper()
	grant(t, kube, "exporter", rbac.Subject{Kind: "User", Name: "exporter"}, ReviewRights...)
	read := []string{"get", "list"}
	grant(t, kube, "read", rbac.Subject{Kind: "Group", Name: "readers"}, rbac.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
		rbac.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"pods"}},
		rbac.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"s"}},
		rbac.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users", "serviceaccounts"}, ResourceNames: []string{"bob", "robot"}},
		rbac.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"auditors"}},
		rbac.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"uids", "userextras/why"}, ResourceNames: []string{"7", "ask"}})
	grant(t, kube, "bob", rbac.Subject{Kind: "User", Name: "bob"}, rbac.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"nodes"}})
	grant(t, kube, "auditors", rbac.Subject{Kind: "Group", Name: "auditors"}, rbac.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"events"}})
	grant(t, kube, "accounts", rbac.Subject{Kind: "Group", Name: "system:serviceaccounts:shop"}, rbac.PolicyRule{Verbs: read, APIGroups: []string{""}, Resources: []string{"services"}})
}

// The real API server authenticates the tokens, and RBAC decides on rights and on impersonation.
func TestTheAPIServerDecides(t *testing.T) {
	servers.Need(t)
	kube, err := servers.StartKubernetes(t.Context(), servers.KubernetesOptions{Users: []servers.User{
		{Name: "alice", Token: "token-of-alice", Groups: []string{"readers"}}, {Name: "exporter", Token: "token-of-exporter"},
		{Name: "powerless", Token: "token-of-powerless"}}})
	must(t, err)
	defer kube.Stop()
	grantAll(t, kube)
	reviews, now := reviewsAs(t, kube.UserConfig(kube.Address, "token-of-exporter"))
	servers.Await(t, "RBAC to learn of the bindings, by a watch", func() (bool, error) {
		*now = now.Add(refusedFor)
		err := reviews.Allow(t.Context(), "token-of-alice", path("/metrics"))
		services := resource("list", "services", "shop", "")
		services.User = "system:serviceaccount:shop:robot"
		return err == nil && reviews.Allow(t.Context(), "token-of-alice", services) == nil, nil
	})
	pods := resource("list", "pods", "", "")
	for _, one := range []struct {
		what  string
		token string
		head  http.Header
		asked Asked
		want  error
	}{
		{"a path", "token-of-alice", nil, path("/metrics"), nil},
		{"another path", "token-of-alice", nil, path("/"), ErrNotAllowed},
		{"a resource", "token-of-alice", nil, pods, nil},
		{"another verb", "token-of-alice", nil, resource("watch", "pods", "", ""), ErrNotAllowed},
		{"one object", "token-of-alice", nil, resource("get", "secrets", "shop", "s"), nil},
		{"all objects", "token-of-alice", nil, resource("list", "secrets", "shop", ""), ErrNotAllowed},
		{"no such token", "wrong", nil, pods, ErrUnknownToken},
		{"no token", "", nil, pods, ErrUnknownToken},
		{"no right to impersonate", "token-of-powerless", http.Header{"Impersonate-User": {"bob"}}, resource("list", "nodes", "", ""), ErrNotAllowed},
		{"as a user who may", "token-of-alice", http.Header{"Impersonate-User": {"bob"}}, resource("list", "nodes", "", ""), nil},
		{"as a user who may not", "token-of-alice", http.Header{"Impersonate-User": {"bob"}}, pods, ErrNotAllowed},
		{"as an unknown user", "token-of-alice", http.Header{"Impersonate-User": {"carol"}}, resource("list", "nodes", "", ""), ErrNotAllowed},
		{"as a group", "token-of-alice", http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"auditors"}}, resource("list", "events", "", ""), nil},
		{"as another group", "token-of-alice", http.Header{"Impersonate-User": {"bob"}, "Impersonate-Group": {"system:masters"}}, pods, ErrNotAllowed},
		{"as a group alone", "token-of-alice", http.Header{"Impersonate-Group": {"auditors"}}, resource("list", "events", "", ""), ErrNotAllowed},
		{"with uid and extra", "token-of-alice", http.Header{"Impersonate-User": {"bob"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-Why": {"ask"}}, resource("list", "nodes", "", ""), nil},
		{"with another extra", "token-of-alice", http.Header{"Impersonate-User": {"bob"}, "Impersonate-Extra-Why": {"not"}}, resource("list", "nodes", "", ""), ErrNotAllowed},
		{"as an account", "token-of-alice", http.Header{"Impersonate-User": {"system:serviceaccount:shop:robot"}}, resource("list", "services", "shop", ""), nil},
		{"as another account", "token-of-alice", http.Header{"Impersonate-User": {"system:serviceaccount:shop:other"}}, resource("list", "services", "shop", ""), ErrNotAllowed},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if one.head != nil {
			r.Header = one.head
		}
		if one.token != "" {
			r.Header.Set("Authorization", "Bearer "+one.token)
		}
		if err := May(reviews, r, one.asked); !errors.Is(err, one.want) {
			t.Errorf("%s: %v, want %v", one.what, err, one.want)
		}
	}
	powerless, _ := reviewsAs(t, kube.UserConfig(kube.Address, "token-of-powerless"))
	if err := powerless.Allow(t.Context(), "token-of-alice", pods); err == nil || !strings.Contains(err.Error(), needs) {
		t.Errorf("reviews without the right to review: %v", err)
	}
	wantAnOutageOutlived(t, kube, reviews, now)
}

// wantAnOutageOutlived stops the API server, and wants that answers which allowed are used for some time.
func wantAnOutageOutlived(t *testing.T, kube *servers.Kubernetes, reviews *Reviews, now *time.Time) {
	t.Helper()
	pods := resource("list", "pods", "", "")
	must(t, kube.API.Stop())
	allowed := func(asked Asked) bool { return reviews.Allow(t.Context(), "token-of-alice", asked) == nil }
	if !allowed(pods) {
		t.Error("an answer is not cached")
	}
	*now = now.Add(allowedForOutage - time.Second)
	if !allowed(pods) || allowed(resource("get", "pods", "", "")) {
		t.Error("while the API server does not answer, what was allowed before is allowed, and nothing else")
	}
	if *now = now.Add(time.Second); allowed(pods) {
		t.Error("it is allowed for ever")
	}
}

// Without reviews a user's rights are not known, so a client that impersonates a user must be refused.
func TestNobodyIsImpersonatedWithoutReviews(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if err := May(nil, r, path("/")); err != nil {
		t.Error(err)
	}
	r.Header.Set("Impersonate-User", "bob")
	if err := May(nil, r, path("/")); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("without a login: %v", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("a-token-of-some-length"), 0o600))
	r.Header.Set("Authorization", "Bearer a-token-of-some-length")
	if err := May(FileToken{file}, r, path("/")); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("with a token: %v", err)
	}
}

// grant binds a ClusterRole of a name to a subject.
func grant(t *testing.T, kube *servers.Kubernetes, name string, to rbac.Subject, rules ...rbac.PolicyRule) {
	t.Helper()
	to.APIGroup = rbac.GroupName
	admin := kubernetes.NewForConfigOrDie(kube.Config).RbacV1()
	meta := metav1.ObjectMeta{Name: name}
	_, err1 := admin.ClusterRoles().Create(t.Context(), &rbac.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, err2 := admin.ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbac.Subject{to}}, metav1.CreateOptions{})
	must(t, errors.Join(err1, err2))
}

// reviewer is an API server that knows two tokens, "good" and "other", and allows their bearers everything. It counts reviews.
func reviewer(t *testing.T) (config *rest.Config, good, wrong, rights *atomic.Int32) {
	t.Helper()
	good, wrong, rights = &atomic.Int32{}, &atomic.Int32{}, &atomic.Int32{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			rights.Add(1)
			io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
		case strings.Contains(string(body), `"good"`):
			good.Add(1)
			io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"good"}}}`)
		case strings.Contains(string(body), `"other"`):
			io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"other"}}}`)
		default:
			wrong.Add(1)
			io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}`)
		}
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL}, good, wrong, rights
}

func TestWrongTokensEvictNoGoodOne(t *testing.T) {
	config, good, wrong, _ := reviewer(t)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	r, now := reviewsAs(t, config)
	must(t, r.Allow(t.Context(), "good", path("/metrics")))
	const flood = 2000
	for i := range flood {
		if err := r.Allow(t.Context(), "wrong-"+strconv.Itoa(i), path("/metrics")); !errors.Is(err, ErrUnknownToken) {
			t.Fatal(err)
		}
	}
	*now = now.Add(allowedFor - time.Second)
	if err := r.Allow(t.Context(), "good", path("/metrics")); err != nil || good.Load() != 1 || wrong.Load() != flood {
		t.Errorf("%v after %d reviews of the good token and %d of wrong ones", err, good.Load(), wrong.Load())
	}
}

// Reviews have a rate limit. Many requests with wrong tokens must not make the others wait until all of them were reviewed.
func TestAFloodOfTokensKeepsNobodyWaiting(t *testing.T) {
	config, good, wrong, _ := reviewer(t)
	r, now := reviewsAs(t, config)
	must(t, r.Allow(t.Context(), "good", path("/metrics")))
	*now = now.Add(allowedForOutage)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 700 {
		all.Go(func() { _ = r.Allow(ctx, "wrong-"+strconv.Itoa(i), path("/metrics")) })
	}
	for wrong.Load() < 100 { // the burst
		time.Sleep(time.Millisecond)
	}
	if err := r.Allow(ctx, "good", path("/metrics")); err != nil || good.Load() != 2 {
		t.Errorf("a token that was allowed before: %v", err)
	}
	for i := range 20 {
		if err := r.Allow(ctx, "good", path("/other/"+strconv.Itoa(i))); err != nil {
			t.Fatalf("another question of a known token: %v", err)
		}
	}
	if good.Load() != 2 {
		t.Errorf("the token was reviewed %d times", good.Load())
	}
}

// A thousand watches of one user begin with one question, or each with another. Nobody else waits until all of them were reviewed.
func TestAFloodOfQuestionsKeepsNobodyWaiting(t *testing.T) {
	for question, most := range map[string]int32{"/same": 1, "/another/": 20} {
		t.Run(question, func(t *testing.T) {
			config, good, _, rights := reviewer(t)
			r, _ := reviewsAs(t, config)
			var all sync.WaitGroup
			defer all.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var allowed atomic.Int32
			for i := range 1000 {
				all.Go(func() {
					if r.Allow(ctx, "good", path(strings.Replace(question, "r/", "r/"+strconv.Itoa(i), 1))) == nil {
						allowed.Add(1)
					}
				})
			}
			for allowed.Load() < 110 { // more than the burst
				time.Sleep(time.Millisecond)
			}
			before := rights.Load()
			if err := r.Allow(ctx, "other", path("/metrics")); err != nil || good.Load() != 1 || rights.Load()-before > most {
				t.Errorf("%v after %d reviews of rights, and %d of a token", err, rights.Load()-before, good.Load())
			}
		})
	}
}

var must = require.NoError
