package reflector_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/test/servers"
)

// far is a road on which each answer takes a while longer. It counts how many are under way at most.
type far struct {
	http.RoundTripper
	latency    time.Duration
	open, most *atomic.Int64
}

func (f far) RoundTrip(r *http.Request) (*http.Response, error) {
	f.most.Store(max(f.most.Load(), f.open.Add(1)))
	defer f.open.Add(-1)
	select {
	case <-time.After(f.latency):
		return f.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// An API server that is 200 ms away is asked for many things at once: a gap is recovered before etcd forgets it.
func TestSlowAFarServersGapIsRecovered(t *testing.T) {
	servers.Slow(t)
	k := servers.Lend(t)
	config := rest.CopyConfig(k.Config)
	road := far{latency: 200 * time.Millisecond, open: new(atomic.Int64), most: new(atomic.Int64)}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { road.RoundTripper = next; return road })
	options := testOptions()
	options.PageSize, options.Recovery = 500, recoverAt(100, 1000)
	options.Recovery.Parallel = 32
	w := newWriter(t, k.Config, 7, []string{"default", "kube-public"})
	w.names = 200
	w.run(400)
	l := newLedger()
	stop := start(t, config, options, l)
	from := revision(t, k)
	l.awaitPosition(t, strconv.FormatInt(from, 10))
	_ = stop()
	w.run(3000)
	mustDo(t, k.RestartAPIServer(t.Context()))
	to := revision(t, k)
	start(t, config, options, l)
	l.awaitPosition(t, strconv.FormatInt(to, 10))
	changes, controls := l.snapshot()
	equalLogs(t, logSays(changes), etcdSays(t, k, from))
	gap := gaps(controls)[0]
	if !gap.Complete || gap.Recovered != 3000 {
		t.Errorf("gap record %+v", gap)
	}
	t.Logf("%d changes recovered in %d ms by %d requests, %d at once", gap.Recovered, gap.ElapsedMs, gap.Requests, road.most.Load())
	if road.most.Load() < 16 {
		t.Errorf("%d requests at once are too few", road.most.Load())
	}
}
