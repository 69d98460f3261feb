package reflector_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Where kine keeps an API server's objects in an SQL database, as in k3s, a gap is recovered like on etcd: make kine
func TestGapOf300ChangesOnKine(t *testing.T) {
	kine := os.Getenv("KUBECDC_TEST_KINE")
	if kine == "" {
		t.Skip("kine is not part of the servers that tests need; make kine builds it and runs this test")
	}
	for name, endpoint := range map[string]string{
		"postgres": servers.Database(t),
		"sqlite":   "sqlite://" + filepath.Join(t.TempDir(), "kine.db") + "?_journal_mode=WAL&_busy_timeout=30000&_synchronous=NORMAL&_txlock=immediate&cache=shared", // its default
	} {
		t.Run(name, func(t *testing.T) {
			k := ownKubernetes(t, servers.KubernetesOptions{Kine: kine, KineEndpoint: endpoint})
			api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps("default")
			must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("rests", nil), metav1.CreateOptions{}))
			l := newLedger()
			g := newGateway(t, k.Config) // not every restart over kine makes the API server answer 410
			start(t, g.config(), testOptions(), l)
			l.awaitSame(t, k.Config)
			g.hold()
			seen := len(l.changes)
			want := changesAsRead(t, k, 300)
			g.release(true)
			l.await(t, "the gap", func() bool { return len(gaps(l.controls)) > 0 })
			l.awaitSame(t, k.Config)
			changes, controls := l.snapshot()
			all := gaps(controls)
			if len(all) != 1 || !all[0].Complete || all[0].Inferred > 0 {
				t.Fatalf("gap records %+v, want a complete one", all)
			}
			var got []string
			for _, c := range changes[seen:] {
				if c.Namespace == "default" {
					got = append(got, answered(c.Op.String(), c.Name, string(c.ResourceVersion)))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the log says %v, the API server said %v", got, want)
			}
			t.Logf("%d of %d changes recovered in %d ms by %d requests", len(got), len(want), all[0].ElapsedMs, all[0].Requests)
		})
	}
}

// changesAsRead makes changes of 20 objects, and describes them as the API server has them.
func changesAsRead(t *testing.T, k *servers.Kubernetes, n int) (all []string) {
	t.Helper()
	api, ctx := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps("default"), context.Background()
	lives := map[string]bool{}
	// On kine the answer to a create can have the version of the write before it (seen on v0.17.5), so each is read again.
	version := func(name string) string {
		return must[*corev1.ConfigMap](t)(api.Get(ctx, name, metav1.GetOptions{})).ResourceVersion
	}
	for i := range n {
		name := fmt.Sprintf("n%d", i*7%20)
		switch cm := configMap(name, map[string]string{"i": fmt.Sprint(i)}); {
		case !lives[name]:
			must[*corev1.ConfigMap](t)(api.Create(ctx, cm, metav1.CreateOptions{}))
			all, lives[name] = append(all, answered("c", name, version(name))), true
		case i%3 == 0:
			mustDo(t, api.Delete(ctx, name, metav1.DeleteOptions{}))
			all, lives[name] = append(all, answered("d", name, "")), false
		default:
			must[*corev1.ConfigMap](t)(api.Update(ctx, cm, metav1.UpdateOptions{}))
			all = append(all, answered("u", name, version(name)))
		}
	}
	return all
}

// answered describes a change as an API server's answers have it: none has the version of a deletion.
func answered(op, name, version string) string {
	if op == change.Delete.String() {
		version = ""
	}
	return op + " " + name + " @" + version
}
