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
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A recovery of 60 streams leaves room for others where the API server takes three requests at a time: few requests are
// answered with 429, its own or another client's.
func TestARecoveryLeavesRoomForOthers(t *testing.T) {
	const streams = 60
	k := ownKubernetes(t, servers.KubernetesOptions{
		APIServerFlags: []string{"--enable-priority-and-fairness=false", "--max-requests-inflight=3", "--max-mutating-requests-inflight=3"},
		// The admin is in system:masters, whom no limit holds back.
		Users: []servers.User{{Name: "exporter", Token: "exporter-token", Groups: []string{"limited"}}, {Name: "other", Token: "other-token", Groups: []string{"limited"}}},
	})
	admin := kubernetes.NewForConfigOrDie(k.Config)
	must[*rbacv1.ClusterRoleBinding](t)(admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "limited"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "limited"}}}, metav1.CreateOptions{}))
	alone := otherClient(t, k)
	time.Sleep(time.Second)
	without := alone.stop()
	namespaces := make([]string, streams)
	each := func(f func(ctx context.Context, i int) error) {
		t.Helper()
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(8)
		for i := range namespaces {
			group.Go(func() error { return f(ctx, i) })
		}
		ok(t, group.Wait())
	}
	ledgers := make([]*ledger, streams)
	each(func(ctx context.Context, i int) error {
		namespaces[i], ledgers[i] = fmt.Sprintf("ns-%02d", i), newLedger()
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[i]}}, metav1.CreateOptions{})
		if err == nil {
			_, err = admin.CoreV1().ConfigMaps(namespaces[i]).Create(ctx, configMap("a", nil), metav1.CreateOptions{})
		}
		return err
	})
	each(func(ctx context.Context, i int) error { // what the log has
		list, err := admin.CoreV1().ConfigMaps(namespaces[i]).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			ledgers[i].objects[change.ObjectKey(o.Namespace, o.Name)] = [2]string{string(o.UID), o.ResourceVersion}
		}
		ledgers[i].position = change.ResourceVersion(list.ResourceVersion)
		return nil
	})
	each(func(ctx context.Context, i int) error { // what it missed
		api := admin.CoreV1().ConfigMaps(namespaces[i])
		if i%12 > 0 {
			return nil
		}
		_, err := api.Create(ctx, configMap("b", nil), metav1.CreateOptions{})
		if err == nil {
			_, err = api.Update(ctx, configMap("a", map[string]string{"v": "2"}), metav1.UpdateOptions{})
		}
		if err == nil {
			err = api.Delete(ctx, "b", metav1.DeleteOptions{})
		}
		return err
	})
	ok(t, k.RestartAPIServer(t.Context()))

	beside := otherClient(t, k)
	o := testOptions()
	o.FreshTries, o.Recovery = 2, recoverAt(100, 500)
	counted := k.UserConfig(k.Address, "exporter-token")
	reads, rest := &statuses{}, &statuses{}
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		sizes, others := reads.wrap(next), rest.wrap(next)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("resourceVersionMatch") == "Exact" && q.Get("fieldSelector") == "" {
				return sizes.RoundTrip(r)
			}
			return others.RoundTrip(r)
		})
	})
	started := time.Now()
	for i, namespace := range namespaces {
		startStream(t, counted, change.NewStream(configMaps, namespace, "", ""), o, ledgers[i], &quietObserver{})
	}
	requests, slowest := 0, int64(0)
	for _, l := range ledgers {
		l.await(t, "the gap", func() bool { return len(gaps(l.controls)) > 0 && len(l.changes)%3 == 0 })
		g := gaps(l.controls)[0]
		if !g.Complete {
			t.Errorf("%+v, want a complete gap of three changes", g)
		}
		requests, slowest = requests+g.Requests, max(slowest, g.ElapsedMs)
	}
	took := time.Since(started)
	with := beside.stop()
	t.Logf("%d streams recovered in %s by %d reads of the past (%.0f a second)", streams, took.Round(time.Millisecond), requests, float64(requests)/took.Seconds())
	t.Logf("reads of a size: %s; all else at the start, which is not paced: %s", reads, rest)
	t.Logf("the other client without the exporter: %s", without)
	t.Logf("the other client beside it: %s", with)
	if share := reads.share(); share > 0.05 {
		t.Errorf("%.1f%% of the reads were answered with 429", 100*share)
	}
	if share := beside.share(); share > 0.05 {
		t.Errorf("%.1f%% of the other client's requests were answered with 429", 100*share)
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
