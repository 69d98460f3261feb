package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A recovery of 60 streams leaves room for others where the API server takes three requests at a time. Few requests are answered with
// 429, the exporter's own or another client's.
func TestSlowARecoveryLeavesRoomForOthers(t *testing.T) {
	servers.Slow(t)
	k := throttledKubernetes(t)
	alone := otherClient(t, k)
	time.Sleep(time.Second) // how long the other client is measured without the exporter
	without := alone.stop()
	missed := makeGaps(t, k, 60)
	mustDo(t, k.RestartAPIServer(t.Context()))

	unlimited := otherClient(t, k)
	counted := k.UserConfig(k.Address, "exporter-token")
	reads, rest := &statuses{}, &statuses{}
	counted.Wrap(splitReads(reads, rest))
	o := testOptions()
	o.FreshTries, o.Recovery = 2, recoverAt(100, 500)
	started := time.Now()
	for _, l := range missed {
		startStream(t, counted, change.NewStream(configMaps, l.namespace, "", ""), o, l.ledger, &quietObserver{})
	}
	requests := 0
	for _, l := range missed {
		l.await(t, "the gap", func() bool { return len(gaps(l.controls)) > 0 && len(l.changes)%3 == 0 })
		g := gaps(l.controls)[0]
		if !g.Complete {
			t.Errorf("%+v, want a complete gap of three changes", g)
		}
		requests += g.Requests
	}
	took := time.Since(started)
	withGaps := unlimited.stop()
	t.Logf("%d streams recovered in %s by %d reads of the past (%.0f a second)", len(missed), took.Round(time.Millisecond), requests,
		float64(requests)/took.Seconds())
	t.Logf("reads of a size: %s; all else at the start, which is not paced: %s", reads, rest)
	t.Logf("the other client without the exporter: %s", without)
	t.Logf("the other client meanwhile: %s", withGaps)
	if share := reads.share(); share > 0.05 {
		t.Errorf("%.1f%% of the reads were answered with 429", 100*share)
	}
	if share := unlimited.share(); share > 0.05 {
		t.Errorf("%.1f%% of the other client's requests were answered with 429", 100*share)
	}
}

// throttledKubernetes starts an API server that takes three requests at a time from the users exporter and other.
func throttledKubernetes(t *testing.T) *servers.Kubernetes {
	limited := []string{"limited"} // the admin is in system:masters, whom no limit holds back
	k := ownKubernetes(t, servers.KubernetesOptions{
		APIServerFlags: []string{"--enable-priority-and-fairness=false", "--max-requests-inflight=3", "--max-mutating-requests-inflight=3"},
		Users:          []servers.User{{Name: "exporter", Token: "exporter-token", Groups: limited}, {Name: "other", Token: "other-token", Groups: limited}},
	})
	must[*rbacv1.ClusterRoleBinding](t)(kubernetes.NewForConfigOrDie(k.Config).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "limited"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "limited"}}}, metav1.CreateOptions{}))
	return k
}

// gapped is a namespace with the log of its ConfigMaps.
type gapped struct {
	*ledger
	namespace string
	api       corev1client.ConfigMapInterface
	missing   bool // the log misses three changes
}

// makeGaps makes n namespaces with one ConfigMap each, which their logs have. In every twelfth namespace the log misses three
// changes.
func makeGaps(t *testing.T, k *servers.Kubernetes, n int) []*gapped {
	t.Helper()
	core := kubernetes.NewForConfigOrDie(k.Config).CoreV1()
	var all []*gapped
	for i := range n {
		namespace := fmt.Sprintf("ns-%02d", i)
		all = append(all, &gapped{newLedger(), namespace, core.ConfigMaps(namespace), i%12 == 0})
	}
	create := func(ctx context.Context, g *gapped) error {
		_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: g.namespace}}, metav1.CreateOptions{})
		if err == nil {
			_, err = g.api.Create(ctx, configMap("a", nil), metav1.CreateOptions{})
		}
		return err
	}
	for _, step := range []func(context.Context, *gapped) error{create, fillLog, makeChanges} {
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(8)
		for _, g := range all {
			group.Go(func() error { return step(ctx, g) })
		}
		mustDo(t, group.Wait())
	}
	return all
}

// fillLog makes the log complete.
func fillLog(ctx context.Context, g *gapped) error {
	list, err := g.api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		g.objects[change.ObjectKey(o.Namespace, o.Name)] = [2]string{string(o.UID), o.ResourceVersion}
	}
	g.position = change.ResourceVersion(list.ResourceVersion)
	return nil
}

// makeChanges makes what the log misses.
func makeChanges(ctx context.Context, g *gapped) error {
	if !g.missing {
		return nil
	}
	_, err := g.api.Create(ctx, configMap("b", nil), metav1.CreateOptions{})
	if err == nil {
		_, err = g.api.Update(ctx, configMap("a", map[string]string{"v": "2"}), metav1.UpdateOptions{})
	}
	if err == nil {
		err = g.api.Delete(ctx, "b", metav1.DeleteOptions{})
	}
	return err
}

// splitReads counts a recovery's reads of sizes and names separately from all other requests.
func splitReads(reads, rest *statuses) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		sizes, others := reads.wrap(next), rest.wrap(next)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("resourceVersionMatch") == "Exact" && q.Get("fieldSelector") == "" {
				return sizes.RoundTrip(r)
			}
			return others.RoundTrip(r)
		})
	}
}

// statuses counts answers.
type statuses struct {
	mu     sync.Mutex
	all    int
	denied int // 429
}

func (s *statuses) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all++
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			s.denied++
		}
		return resp, err
	})
}

func (s *statuses) share() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.denied) / float64(max(s.all, 1))
}

func (s *statuses) String() string {
	return fmt.Sprintf("%d, %.1f%% of them 429", s.all, 100*s.share())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// other is a client that reads and writes one object again and again, as controllers do.
type other struct {
	statuses
	took []time.Duration
	end  chan struct{}
	done chan struct{}
}

func otherClient(t *testing.T, k *servers.Kubernetes) *other {
	o := &other{end: make(chan struct{}), done: make(chan struct{})}
	config := k.UserConfig(k.Address, "other-token")
	config.Wrap(o.wrap)
	config.Proxy = http.ProxyFromEnvironment
	go o.run(t, config)
	return o
}

func (o *other) run(t *testing.T, config *rest.Config) {
	defer close(o.done)
	api := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	_, _ = api.Create(context.Background(), configMap("other", nil), metav1.CreateOptions{})
	for {
		select {
		case <-o.end:
			return
		case <-time.After(10 * time.Millisecond):
		}
		began := time.Now()
		cm, err := api.Get(context.Background(), "other", metav1.GetOptions{})
		if err == nil {
			cm.Data = map[string]string{"n": "same"} // not another revision, which the streams would have to read too
			_, err = api.Update(context.Background(), cm, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Logf("the other client: %v", err)
		}
		o.took = append(o.took, time.Since(began))
	}
}

func (o *other) stop() string {
	close(o.end)
	<-o.done
	slices.Sort(o.took)
	n := len(o.took)
	return fmt.Sprintf("%s; %d times read and written, p50 %s, p99 %s", o, n, o.took[n/2].Round(10*time.Microsecond), o.took[n*99/100].Round(10*time.Microsecond))
}
