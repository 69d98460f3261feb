package reflector_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Two API servers are behind one address. The one that was restarted answers 410, and the other still has the position.
func TestAnotherAPIServerStillHoldsThePosition(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	other, err := k.AddAPIServer(context.Background())
	mustDo(t, err)
	proxy := newProxy(t, k.Address)
	w := newWriter(t, k.Config, 5, []string{"default"})
	w.run(10)
	l := newLedger()
	options := testOptions()
	options.FreshTries = 2
	_, stop := startOn(t, k.ConfigAt(proxy.Address), options, l, &quietObserver{})
	from := revision(t, k)
	l.awaitPosition(t, strconv.FormatInt(from, 10))
	_ = stop()
	w.run(50)
	mustDo(t, k.RestartAPIServer(context.Background()))
	o := &watched{}
	o.entered = func(s change.StreamState) {
		if s == change.StateExpired {
			proxy.Retarget(other.Address)
		}
	}
	startOn(t, k.ConfigAt(proxy.Address), options, l, o)
	want := etcdSays(t, k, from)
	_, last, _ := strings.Cut(want[len(want)-1], "@")
	l.awaitPosition(t, last)
	changes, controls := l.snapshot()
	equalLogs(t, logSays(changes), want)
	if !o.was(change.StateExpired) || o.was(change.StateListing) || o.was(change.StateBackfilling) || len(gaps(controls)) > 0 {
		t.Errorf("went through %v with gap records %v, want a 410 and no list", o.states, gaps(controls))
	}
	behindABalancer(t, k, other, proxy, l, from)
}

// Two API servers are behind one address. One is slow while the other is restarted. Connections break and lead to either. Nothing is
// lost, nothing comes twice.
func behindABalancer(t *testing.T, k *servers.Kubernetes, other *servers.APIServer, balancer *servers.Proxy, l *ledger, from int64) {
	slow := newProxy(t, other.Address)
	slow.Slow(30_000)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(400 * time.Millisecond):
			}
			balancer.Retarget([]string{k.Address, slow.Address}[i%2])
			balancer.Drop()
		}
	}()
	w := newWriter(t, other.Config, 6, []string{"kube-public"})
	w.run(100)
	mustDo(t, k.RestartAPIServer(t.Context()))
	w.run(100)
	close(end)
	<-done
	l.awaitPosition(t, strconv.FormatInt(revision(t, k), 10))
	changes, controls := l.snapshot()
	equalLogs(t, logSays(changes), etcdSays(t, k, from))
	noneTwice(t, changes)
	for _, g := range gaps(controls) {
		if !g.Complete {
			t.Errorf("gap record %+v, want a complete one", g)
		}
	}
	t.Logf("%d changes, %d gaps", len(changes), len(gaps(controls)))
}
