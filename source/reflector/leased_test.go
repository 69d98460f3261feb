package reflector_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Events that were made within a second share a lease, and end at one revision. A crash after the first of these deletions
// loses none of the others, and repeats none.
func TestACrashBetweenDeletionsOfOneRevisionLosesNone(t *testing.T) {
	t.Parallel()
	k := ownKubernetes(t, servers.KubernetesOptions{APIServerFlags: []string{"--event-ttl=20s"}})
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().Events("default")
	for i := range 5 {
		must[*corev1.Event](t)(api.Create(t.Context(), event("default", fmt.Sprint("e", i)), metav1.CreateOptions{}))
	}
	l := newLedger()
	stream := change.NewStream(eventsResource, "", "", "")
	_, stop := startStream(t, k.Config, stream, testOptions(), l, &quietObserver{})
	l.awaitStarted(t)
	l.mu.Lock()
	l.failAt = l.sent + 2
	l.mu.Unlock()
	l.await(t, "the crash", func() bool { return l.sent >= l.failAt })
	_ = stop()
	startStream(t, k.Config, stream, testOptions(), l, &quietObserver{})
	l.await(t, "the other deletions", func() bool { return len(l.objects) == 0 })
	changes, controls := l.snapshot()
	noneTwice(t, changes)
	own := 0
	versions := map[string]int{}
	for _, c := range changes {
		if len(c.Name) == len("e0") { // an API server that starts slowly has Events of its own
			own++
		}
		if c.Op == change.Delete {
			versions[string(c.ResourceVersion)]++
		}
	}
	if own != 10 || len(gaps(controls)) > 0 {
		t.Errorf("%d changes and gap records %+v, want 5 and their deletions, and none: %v", own, gaps(controls), changes)
	}
	most := 0
	for _, n := range versions {
		most = max(most, n)
	}
	if most < 2 {
		t.Fatalf("no two deletions were at one revision: %v", versions)
	}
}
