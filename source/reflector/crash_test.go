package reflector_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// The log fails at every item of a recovery, one after another. Each time the stream starts again from what is durable. Nothing is
// emitted twice, nothing is lost, and every gap record says that it is complete.
func TestCrashAtEveryItemOfARecovery(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 11, []string{"default", "kube-public"})
	w.run(10)
	g := newGateway(t, k.Config)
	l := newLedger()
	stop := start(t, g.config(), testOptions(), l)
	from := revision(t, k)
	l.awaitPosition(t, strconv.FormatInt(from-1, 10))
	begin := position(l)
	_ = stop()
	g.hold()
	w.run(40)
	want := etcdSays(t, k, begin)
	_, last, _ := strings.Cut(want[len(want)-1], "@")
	crashes := 0
	for ; l.position.Compare(change.ResourceVersion(last)) < 0 && crashes < 500; crashes++ {
		l.mu.Lock()
		l.failAt = l.sent + 1 + crashes%4 // the gap record, or one of the changes after it
		l.mu.Unlock()
		_, stop := startOn(t, g.config(), testOptions(), l, &quietObserver{})
		g.release(true)
		failed := func() bool { return l.sent >= l.failAt || l.position.Compare(change.ResourceVersion(last)) >= 0 }
		l.await(t, "the crash", failed)
		_ = stop()
		g.hold()
	}
	changes, controls := l.snapshot()
	equalLogs(t, logSays(changes), want)
	for _, gap := range gaps(controls) {
		if !gap.Complete {
			t.Errorf("gap record %+v, want it complete", gap)
		}
	}
	t.Logf("%d changes through %d crashes", len(want), crashes)
}

// Random histories have restarts of the API server, and compactions before and in the middle of the recovery. The final state is right.
// Nothing is emitted twice, and nothing that did not happen. What is missing is in a gap whose record says so.
func TestCompactedGapsAreSaidToBeIncomplete(t *testing.T) {
	t.Parallel()
	rounds, seed := 4, rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_HISTORIES")); err == nil {
		rounds = n
	}
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("%d histories, KUBECDC_TEST_SEED=%d", rounds, seed)
	k := servers.Lend(t)
	w := newWriter(t, k.Config, seed, []string{"default", "kube-public", "kube-system"})
	g := newGateway(t, k.Config)
	l := newLedger()
	options := testOptions()
	options.Recovery.BodyBytes = bodyBytes(seed)
	start(t, g.config(), options, l)
	l.awaitPosition(t, strconv.FormatInt(revision(t, k)-1, 10))
	read := position(l)
	var truth []string
	count := func() int64 { // before a compaction makes it impossible
		now := revision(t, k)
		truth = append(truth, etcdSays(t, k, read)...)
		read = now
		return now
	}
	for range rounds {
		w.run(w.random.IntN(6))
		g.hold()
		w.run(5 + w.random.IntN(40))
		now := count()
		compactedRound(t, k, w, g, now)
		_, last, _ := strings.Cut(truth[len(truth)-1], "@")
		l.awaitPosition(t, last)
		l.awaitSame(t, k.Config)
	}
	judge(t, l, truth)
}

// compactedRound lets the stream go on after something has happened to the server's history.
func compactedRound(t *testing.T, k *servers.Kubernetes, w *writer, g *gateway, now int64) {
	t.Helper()
	compact := func(rev int64) {
		if err := k.Compact(context.Background(), rev); err != nil && !strings.Contains(err.Error(), "has been compacted") {
			t.Error(err)
		}
	}
	restart := func() {
		mustDo(t, k.RestartAPIServer(context.Background()))
	}
	switch w.random.IntN(4) {
	case 0: // before: some of it is gone
		compact(now - int64(w.random.IntN(20)))
		restart()
		g.release(false)
	case 1: // in the middle
		revision := g.exact + 1 + w.random.IntN(60)
		g.mu.Lock()
		g.reading = func(n int) {
			if n == revision {
				compact(now - int64(revision%10))
			}
		}
		g.mu.Unlock()
		restart()
		g.release(false)
	case 2:
		restart()
		g.release(false)
	case 3:
		g.release(true)
	}
}

// judge compares the log with what really happened.
func judge(t *testing.T, l *ledger, truth []string) {
	t.Helper()
	changes, controls := l.snapshot()
	noneTwice(t, changes)
	recorded := map[string]bool{}
	for _, c := range changes {
		line := logged(c.Op.String(), c.Key(), string(c.ResourceVersion))
		recorded[line] = true
		if !c.Inferred && c.Op != change.Read && !slices.Contains(truth, line) {
			t.Errorf("the log says %q, which never happened", line)
		}
	}
	incomplete, missing := 0, 0
	for _, gap := range gaps(controls) {
		if !gap.Complete {
			incomplete++
			if gap.Reason == "" {
				t.Errorf("an incomplete gap without a reason: %+v", gap)
			}
		}
	}
	for _, line := range truth {
		if recorded[line] {
			continue
		}
		missing++
		_, written, _ := strings.Cut(line, "@")
		version := change.ResourceVersion(written)
		if !slices.ContainsFunc(gaps(controls), func(g change.Gap) bool {
			return !g.Complete && version.Compare(g.From) > 0 && version.Compare(g.To) <= 0
		}) {
			t.Errorf("%q is missing, and no gap record says that it may be", line)
		}
	}
	t.Logf("%d changes, %d missing; %d gaps, %d of them incomplete", len(truth), missing, len(gaps(controls)), incomplete)
}

// Bodies above the number of bytes that a recovery may hold are read again when they are emitted.
func TestBodiesAboveTheBudgetAreReadAgain(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	g := newGateway(t, k.Config)
	api := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps(ns)
	l := newLedger()
	startStream(t, g.config(), change.NewStream(configMaps, ns, "", ""), testOptions(), l, &quietObserver{})
	l.awaitStarted(t)
	g.hold()
	const updates, size = 36, 900_000 // 32 MB, and 24 are held
	must[*corev1.ConfigMap](t)(api.Create(t.Context(), configMap("large", nil), metav1.CreateOptions{}))
	for i := range updates {
		large := configMap("large", nil)
		large.Data["body"] = strings.Repeat(string(rune('a'+i%26)), size)
		must[*corev1.ConfigMap](t)(api.Update(t.Context(), large, metav1.UpdateOptions{}))
	}
	g.release(true)
	l.await(t, "all updates", func() bool { return len(l.changes) == updates+1 })
	if gap := onlyGap(t, l); !gap.Complete {
		t.Errorf("gap record %+v", gap)
	}
	for i, c := range l.changes[1:] {
		if want := `"body":"` + string(rune('a'+i%26)); !strings.Contains(string(c.After), want) || !strings.Contains(string(c.After), `"resourceVersion":"`+string(c.ResourceVersion)+`"`) {
			t.Errorf("update %d @%s has another body", i, c.ResourceVersion)
		}
	}
}
