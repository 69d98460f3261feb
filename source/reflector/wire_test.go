package reflector_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// What real servers and networks do to a stream.

func ownKubernetes(t *testing.T, options servers.KubernetesOptions) *servers.Kubernetes {
	t.Helper()
	servers.Need(t)
	k, err := servers.StartKubernetes(context.Background(), options)
	mustDo(t, err)
	t.Cleanup(func() { _ = k.Stop() })
	return k
}

// awaitSame waits until the log's final state is the server's.
func (l *ledger) awaitSame(t *testing.T, config *rest.Config) {
	t.Helper()
	list, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("").List(context.Background(), metav1.ListOptions{})
	mustDo(t, err)
	want := map[string][2]string{}
	for _, o := range list.Items {
		want[change.ObjectKey(o.Namespace, o.Name)] = [2]string{string(o.UID), o.ResourceVersion}
	}
	clock := servers.StartClock()
	l.await(t, "the server's state", func() bool { return maps.Equal(want, l.objects) || clock.Late() })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !maps.Equal(want, l.objects) {
		t.Errorf("the log's state is %v, the server's %v", l.objects, want)
	}
}

// noneTwice fails when the log has a change of one object twice.
func noneTwice(t *testing.T, changes []change.Change) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range changes {
		id := fmt.Sprintf("%s %s %s @%s", c.Op, c.Key(), c.UID, c.ResourceVersion)
		if seen[id] {
			t.Errorf("twice in the log: %s", id)
		}
		seen[id] = true
	}
}

func (w *writer) forget(t *testing.T) { // the server was set back: look again what is there
	t.Helper()
	w.alive = map[string]bool{}
	list, err := w.client.CoreV1().ConfigMaps("").List(context.Background(), metav1.ListOptions{})
	mustDo(t, err)
	for _, o := range list.Items {
		w.alive[o.Namespace+"/"+o.Name] = true
	}
}

func TestRestoredEtcdIsFoundOut(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 3, []string{"default", "kube-public"})
	w.names = 15
	w.run(40)
	l := newLedger()
	o := testOptions()
	o.MaxBackoff = time.Second
	stop := start(t, k.Config, o, l)
	l.awaitSame(t, k.Config)
	backup, err := k.SnapshotEtcd(context.Background())
	mustDo(t, err)
	lost := func(t *testing.T, gapsBefore int) {
		t.Helper()
		l.await(t, "a gap record", func() bool { return len(gaps(l.controls)) > gapsBefore })
		l.awaitSame(t, k.Config)
		_, controls := l.snapshot()
		if g := gaps(controls)[gapsBefore]; g.Complete || !strings.Contains(g.Reason, "history went backwards") {
			t.Errorf("gap record %+v, want one that says that history went backwards", g)
		}
		w.forget(t)
		w.run(30)
		l.awaitSame(t, k.Config)
	}
	t.Run("while the stream runs", func(t *testing.T) {
		w.run(150)
		l.awaitSame(t, k.Config)
		mustDo(t, k.RestoreEtcd(context.Background(), backup))
		lost(t, 0)
	})
	t.Run("and has grown past the position before the stream is back", func(t *testing.T) {
		w.run(60)
		l.awaitSame(t, k.Config)
		_ = stop()
		mustDo(t, k.RestoreEtcd(context.Background(), backup))
		w.forget(t)
		for revision(t, k) < position(l)+20 {
			w.run(10)
		}
		start(t, k.Config, o, l)
		lost(t, 1)
	})
}

// watched calls entered with each state that the stream enters.
type watched struct {
	quietObserver
	entered func(change.StreamState)
}

func (w *watched) StreamState(stream change.StreamID, state change.StreamState, err error) {
	w.quietObserver.StreamState(stream, state, err)
	if w.entered != nil {
		w.entered(state)
	}
}

func (q *quietObserver) was(state change.StreamState) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.states, state)
}

func newProxy(t *testing.T, target string) *servers.Proxy {
	t.Helper()
	p, err := servers.NewProxy(target)
	mustDo(t, err)
	t.Cleanup(p.Close)
	return p
}

// A network that breaks in all its ways costs nothing, and needs no list.
func TestABrokenNetworkCostsNoChange(t *testing.T) {
	k := servers.Kube(t)
	proxy := newProxy(t, k.Address)
	w := newWriter(t, k.Config, 6, []string{servers.Namespace(t)})
	l := newLedger()
	options := testOptions()
	options.Quiet, options.MaxBackoff = 2*time.Second, 500*time.Millisecond
	o := &quietObserver{}
	startOn(t, k.ConfigAt(proxy.Address), options, l, o)
	l.awaitSame(t, k.Config)
	begin := position(l)
	caughtUp := func(t *testing.T) {
		t.Helper()
		w.run(5)
		l.awaitSame(t, k.Config)
	}
	for name, fault := range map[string]func(t *testing.T){
		"cut and refused":       func(*testing.T) { proxy.Cut(); w.run(10); time.Sleep(time.Second) },
		"reset":                 func(*testing.T) { w.run(5); proxy.Drop(); w.run(5) },
		"cut in the middle":     func(*testing.T) { proxy.CutAfter(3000); w.run(20) },
		"half open":             func(t *testing.T) { proxy.Freeze(); w.run(10); awaitRestart(t, o) },
		"half open, new server": func(t *testing.T) { proxy.Freeze(); w.run(10); awaitRestart(t, o); proxy.Drop() },
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			mustDo(t, proxy.Restore())
			caughtUp(t)
		})
	}
	changes, controls := l.snapshot()
	var mine []change.Change
	for _, c := range changes {
		if c.Namespace == w.namespaces[0] {
			mine = append(mine, c)
		}
	}
	var want []string
	for _, e := range etcdSays(t, k, begin) {
		if strings.Contains(e, " "+w.namespaces[0]+"/") {
			want = append(want, e)
		}
	}
	equalLogs(t, logSays(mine), want)
	if len(gaps(controls)) > 0 {
		t.Errorf("gap records %+v, want none", gaps(controls))
	}
}

func awaitRestart(t *testing.T, o *quietObserver) {
	t.Helper()
	o.mu.Lock()
	n := o.restarts
	o.mu.Unlock()
	servers.Await(t, "the half-open connection to be found out", func() (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.restarts > n, nil
	})
}

var mustDo = require.NoError
