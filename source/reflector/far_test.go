package reflector_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/test/servers"
)

// far is a road on which each answer takes a while longer.
type far struct {
	http.RoundTripper
	latency time.Duration
}

func (f far) RoundTrip(r *http.Request) (*http.Response, error) {
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
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return far{next, 200 * time.Millisecond} })
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
	if err := k.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := revision(t, k)
	start(t, config, options, l)
	l.awaitPosition(t, strconv.FormatInt(to, 10))
	changes, controls := l.snapshot()
	equalLogs(t, logSays(changes), etcdSays(t, k, from))
	gap := gaps(controls)[0]
	if !gap.Complete || gap.Recovered != 3000 {
		t.Errorf("gap record %+v", gap)
	}
	perRequest := time.Duration(gap.ElapsedMs) * time.Millisecond / time.Duration(gap.Requests)
	t.Logf("%d changes recovered in %d ms by %d requests: one each %s", gap.Recovered, gap.ElapsedMs, gap.Requests, perRequest)
	if perRequest > 50*time.Millisecond { // four at a time, one each 50 ms, is too few
		t.Errorf("a request each %s", perRequest)
	}
}
