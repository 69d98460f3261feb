package e2e

import "testing"

// One of three replicas loses the API server, which freezes for it, or refuses its connections. The other replicas take over its
// streams, and it has its share again afterwards. If all replicas lose the API server, no slot moves.
func TestAReplicaWithoutTheAPIServerLeavesItsSlots(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	proxies, proxied := w.Proxied(t)
	api := proxies["api"]
	proxied = withSettings(w.With("KUBECDC_SLOTS", "6"), "KUBECONFIG", proxied["KUBECONFIG"])
	env := withSettings(proxied, "KUBECONFIG", w.Env["KUBECONFIG"])
	writer, slots := w.Writer(t, Kinds), readLeases(t, w)
	cut := StartExporter(t, "the one that is cut off", proxied).AwaitReady(t)
	others := []*Exporter{StartExporter(t, "the second", env), StartExporter(t, "the third", env)}
	slots.await("the start", 2, append(others, cut)...)
	for _, e := range others {
		e.AwaitReady(t)
	}
	for name, fault := range map[string]func(){"freezes": api.Freeze, "refuses": api.Cut} {
		writer.Run(50)
		fault()
		writer.Run(40)
		cut.awaitWrong(t, "apiserver: no answer since")
		slots.await("the API server "+name, 3, others...)
		cut.awaitLogged(t, "the API server does not answer this one")
		w.AwaitComplete(t, writer, Kinds) // the other replicas have written
		must(t, api.Restore())
		slots.await("it answers again", 2, append(others, cut)...)
		cut.AwaitReady(t)
	}
	writer.Run(50)
	w.Kube.KillAPIServer()
	awayForAll(t, slots, "apiserver: no answer since", func() { must(t, w.Kube.StartAPIServer(t.Context())) }, append(others, cut)...)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}
