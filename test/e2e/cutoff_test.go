package e2e

import (
	"strings"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// Of three replicas one loses the API server, which freezes for it, or refuses its connections: the streams
// go on at the others, and it has its share again afterwards. Where all lose it, no slot moves.
func TestAReplicaWithoutTheAPIServerLeavesItsSlots(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	const lease = 2 * time.Second
	proxies, proxied := w.Proxied(t)
	api := proxies["api"]
	proxied = with(w.With("KUBECDC_SLOTS", "6", "KUBECDC_LEASE_DURATION", lease.String()), "KUBECONFIG", proxied["KUBECONFIG"])
	env := with(proxied, "KUBECONFIG", w.Env["KUBECONFIG"])
	writer, slots := w.Writer(t, Kinds), readLeases(t, w)
	cut := StartExporter(t, "the one that is cut off", proxied)
	cut.AwaitReady(t)
	others := []*Exporter{StartExporter(t, "the second", env), StartExporter(t, "the third", env)}
	slots.await(30*time.Second, 2, append(others, cut)...)
	for _, e := range others {
		e.AwaitReady(t)
	}
	for name, fault := range map[string]func(){"freezes": api.Freeze, "refuses": api.Cut} {
		writer.Run(50)
		fault()
		began := servers.StartClock()
		writer.Run(100)
		Await(t, 30*time.Second, "/readyz to name the API server", func() (bool, error) {
			return !cut.Ready() && strings.Contains(cut.Wrong(), "apiserver: no answer since"), nil
		})
		slots.await(60*time.Second, 3, others...)
		if took := began.Passed(); took > 10*lease {
			t.Errorf("the API server %s: taken over after %s", name, took)
		} else {
			t.Logf("the API server %s: taken over after %s; the replica says: %s", name, took, cut.Wrong())
		}
		cut.wantLogged(t, "the API server does not answer this one")
		w.AwaitComplete(t, writer, Kinds) // by the others
		must(t, api.Restore())
		slots.await(60*time.Second, 2, append(others, cut)...)
		cut.AwaitReady(t)
	}
	writer.Run(50)
	apiServerAwayForAll(t, w, slots, lease, append(others, cut)...)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// apiServerAwayForAll: where no replica has the API server, no slot changes hands, for however long.
func apiServerAwayForAll(t *testing.T, w *World, slots *leases, lease time.Duration, replicas ...*Exporter) {
	t.Helper()
	_, before := slots.held()
	w.Kube.KillAPIServer()
	away := time.After(8 * lease)
	for _, e := range replicas {
		Await(t, 30*time.Second, "/readyz to name the API server", func() (bool, error) {
			return !e.Ready() && strings.Contains(e.Wrong(), "apiserver: no answer since"), nil
		})
	}
	<-away
	must(t, w.Kube.StartAPIServer(t.Context()))
	for _, e := range replicas {
		e.AwaitReady(t)
	}
	if held, after := slots.held(); after != before || len(held) != len(replicas) {
		t.Errorf("slots changed hands %d times while nobody had the API server: %v", after-before, held)
	}
}
