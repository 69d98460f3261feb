package e2e

import (
	"testing"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Events have no watch cache in the API server. While they are quiet, other resources are written, and etcd is compacted past the
// Events' position before their watch ends. The log still reports that it is complete, and has no gap.
func TestQuietEventsOutliveCompaction(t *testing.T) {
	t.Parallel()
	w := postgresWorld(t, servers.Lend(t), servers.PostgresOptions{})
	kinds := []Kind{Events, ConfigMaps}
	w.Env["KUBECDC_RESOURCES"] = Resources(kinds)
	w.Env["KUBECDC_WATERMARK_INTERVAL"] = "20s" // a watch lasts that long
	both, others := w.Writer(t, kinds), w.Writer(t, []Kind{Roles})
	both.Run(30)
	e := StartExporter(t, "exporter", w.Env).AwaitReady(t)
	w.AwaitComplete(t, both, kinds)
	quiet, err := w.Kube.Revision(t.Context())
	must(t, err)
	others.Run(20)
	must(t, w.Kube.Compact(t.Context(), 0))
	Await(t, "the events to be confirmed after that", func() (bool, error) {
		for _, c := range w.Read(t).Controls {
			for _, p := range c.Positions {
				if p.Stream == Events.Stream() && p.ResourceVersion.Compare(change.VersionOf(uint64(quiet))) > 0 {
					return true, nil
				}
			}
		}
		return false, nil
	})
	both.Run(30)
	log := w.AwaitComplete(t, both, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	for _, c := range log.Controls {
		if c.Type == change.ControlGap {
			t.Errorf("gap record %+v, want none", *c.Gap)
		}
	}
	e.stop(t)
}
