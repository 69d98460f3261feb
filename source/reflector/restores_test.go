package reflector_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// restores reports restores to all streams of a test, even to streams that do not run. It remembers which streams have not followed yet.
type restores struct {
	mu       sync.Mutex
	last     int64
	reported int // restores
	open     map[change.StreamID]int64
	finder   *change.Stream
	running  map[change.StreamID]*reflector.Reflector
}

func newRestores() *restores {
	return &restores{open: map[change.StreamID]int64{}, running: map[change.StreamID]*reflector.Reflector{}}
}

// join adds a running stream, in the place of an earlier one of its name.
func (x *restores) join(r *reflector.Reflector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running[r.ID()] = r; x.open[r.ID()] > 0 {
		r.FollowRestore(x.open[r.ID()], x.finder)
	}
}

func (x *restores) Tell(_ context.Context, found *change.Stream) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[found.ID()] == 0 {
		x.reported++
		x.finder = found
		for id := range x.running {
			x.last++
			x.open[id] = x.last
		}
		time.AfterFunc(time.Second, x.poll)
	}
	return x.open[found.ID()], nil
}

// poll tells those who run.
func (x *restores) poll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, number := range x.open {
		x.running[id].FollowRestore(number, x.finder)
	}
}

func (x *restores) Followed(_ context.Context, stream change.StreamID, number int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[stream] <= number {
		delete(x.open, stream)
	}
	return nil
}

// allFollowed reports whether all have followed, and how often a stream has reported a restore.
func (x *restores) allFollowed() (followed bool, reported int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.open) == 0, x.reported
}

// etcd is restored from a backup under a running exporter, which can't reach its API server until that has grown past the
// positions. The stream of ConfigMaps sees it by its newest object. The stream of Secrets can't see it: what it lacks was deleted
// after the backup, and what it has is older.
func TestARestoreIsFollowedByStreamsThatCantSeeIt(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	proxy := newProxy(t, k.Address)
	core := kubernetes.NewForConfigOrDie(k.Config).CoreV1()
	secret := func(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for _, name := range []string{"deleted-1", "deleted-2", "stays"} {
		must[*corev1.Secret](t)(core.Secrets("default").Create(t.Context(), secret(name), metav1.CreateOptions{}))
	}
	w := newWriter(t, k.Config, 23, []string{"default"})
	w.run(20)
	options, maps, quiet := testOptions(), newLedger(), newLedger()
	all := newRestores()
	options.Restores = all
	r, _ := startStream(t, k.ConfigAt(proxy.Address), change.NewStream(configMaps, "", "", ""), options, maps, &quietObserver{})
	all.join(r)
	r, _ = startStream(t, k.ConfigAt(proxy.Address), change.NewStream(secrets, "default", "", ""), options, quiet, &quietObserver{})
	all.join(r)
	quiet.awaitLog(t, "r deleted-1", "r deleted-2", "r stays")
	maps.awaitSame(t, k.Config)
	backup := must[string](t)(k.SnapshotEtcd(context.Background()))
	for _, name := range []string{"deleted-1", "deleted-2"} {
		mustDo(t, core.Secrets("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	must[*corev1.ConfigMap](t)(core.ConfigMaps("default").Create(t.Context(), configMap("newest", nil), metav1.CreateOptions{}))
	quiet.await(t, "the deletions", func() bool { return len(quiet.objects) == 1 })
	maps.awaitSame(t, k.Config)
	seen := revision(t, k)
	proxy.Cut()
	mustDo(t, k.RestoreEtcd(context.Background(), backup))
	for w.forget(t); revision(t, k) < seen+20; {
		w.run(10)
	}
	mustDo(t, proxy.Restore())
	quiet.await(t, "the secrets that are there again", func() bool { return len(quiet.objects) == 3 })
	maps.awaitSame(t, k.Config)
	for _, l := range []*ledger{maps, quiet} {
		if g := onlyGap(t, l); g.Complete || !strings.Contains(g.Reason, "history went backwards") {
			t.Errorf("gap record %+v, want one that says that history went backwards", g)
		}
	}
}
