package reflector_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/servers"
)

// TestMeasureGaps measures how long gaps of 300, 3,000 and 30,000 changes take over collections of 1,000 and 50,000 objects, and how
// many requests they cost. KUBECDC_TEST_MEASURE=1 go test ./source/reflector -run TestMeasureGaps -v -timeout 60m
func TestMeasureGaps(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_MEASURE") == "" {
		t.Skip("takes many minutes; set KUBECDC_TEST_MEASURE=1")
	}
	for _, objects := range []int{1_000, 50_000} {
		t.Run(fmt.Sprintf("%d objects", objects), func(t *testing.T) { measureGaps(t, objects) })
	}
}

func measureGaps(t *testing.T, objects int) {
	k := servers.Lend(t)
	// 10 names change again and again, as in a cluster: most objects are at rest.
	w := newWriter(t, k.Config, 1, []string{"default", "kube-public"})
	w.names = objects / 10
	fill(t, k, objects)
	g := newGateway(t, k.Config)
	l := newLedger()
	options := testOptions()
	options.PageSize, options.Recovery = 500, recoverAt(100, 1000) // the defaults
	start(t, g.config(), options, l)
	l.await(t, "the first list", func() bool { return l.position != "" })
	l.awaitSame(t, k.Config)
	for i, changes := range []int{300, 3_000, 30_000} {
		g.hold()
		w.run(changes)
		last := strconv.FormatInt(revision(t, k), 10)
		started := time.Now()
		g.release(true)
		for deadline := time.Now().Add(20 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			l.mu.Lock()
			n := len(gaps(l.controls))
			l.mu.Unlock()
			if n > i {
				break
			}
		}
		l.awaitPosition(t, last)
		gap := gaps(l.controls)[i]
		t.Logf("%6d objects, gap of %6d changes (%s to %s): complete %v, %d recovered, %d requests, found in %.1f s, written in %.1f s; %s",
			objects, changes, gap.From, gap.To, gap.Complete, gap.Recovered, gap.Requests, float64(gap.ElapsedMs)/1000, time.Since(started).Seconds(), gap.Reason)
	}
}

// fill makes objects that do not change.
func fill(t *testing.T, k *servers.Kubernetes, n int) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(k.Config)
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rest-%d", i)}, Data: map[string]string{"v": strings.Repeat("x", 200)}}
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
			return err
		})
	}
	mustDo(t, group.Wait())
}
