package e2e

import (
	"testing"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// One address leads to two API servers of one cluster. One of them does not serve a built-in resource, as in an upgrade that drops
// or adds a version. Its 404 and its discovery prove nothing about the objects. None is deleted in the log, the stream waits,
// and /readyz says why. When the other server answers again, the stream goes on from its position.
func TestSlowABuiltInResourceThatOneAPIServerDoesNotServeIsNotRemoved(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	kinds := []Kind{ConfigMaps, Budgets}
	writer := w.Writer(t, kinds).Fill(12)
	proxy, env := w.atProxy(t, "KUBECDC_RESOURCES", Resources(kinds))
	e := StartExporter(t, "behind two servers", env).AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	without, err := w.Kube.AddAPIServer(t.Context(), "--runtime-config=policy/v1=false")
	must(t, err)
	lead := func(to string) { proxy.Retarget(to); proxy.Drop() }

	lead(without.Address)
	e.awaitWrong(t, "stream "+Budgets.ID()+": ", "is built in")
	writer.Run(40)
	w.AwaitComplete(t, writer, []Kind{ConfigMaps})
	wantNoEnd(t, w, Budgets)

	t.Log("started behind the server that does not serve it")
	e.stop(t)
	e = StartExporter(t, "behind the server without it", env)
	e.awaitWrong(t, "stream "+Budgets.ID()+": ", "is built in")
	wantNoEnd(t, w, Budgets)

	must(t, w.Kube.RestartAPIServer(t.Context())) // registers again the APIs that the other server has unregistered
	lead(w.Kube.Address)
	w.AwaitComplete(t, writer, kinds)
	e.stop(t)
	log := w.Read(t)
	wantNoEnd(t, w, Budgets)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	if begins := log.ControlsOf(Budgets.Stream(), change.ControlSnapshotBegin); len(begins) != 1 {
		t.Errorf("the stream began %d times: %+v", len(begins), begins)
	}
}

func wantNoEnd(t *testing.T, w *World, kind Kind) {
	t.Helper()
	if ends := w.Read(t).ControlsOf(kind.Stream(), change.ControlStreamEnd); len(ends) != 0 {
		t.Fatalf("the stream ended: %+v", ends)
	}
}
