package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// A gap in which objects of 900 KB have changed is recovered within the memory of the chart's Pod: 128 MiB. So is one of which the server
// has compacted a part.
func TestSlowAGapOfLargeObjectsFitsIntoThePod(t *testing.T) {
	servers.Slow(t)
	w := NewFileWorld(t)
	kinds := []Kind{ConfigMaps}
	env := w.With("KUBECDC_RESOURCES", ConfigMaps.ID(), "GOMEMLIMIT", "100MiB")
	writer := NewWriter(t, w.Kube.Config, 1, kinds)
	client := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(ConfigMaps.GVR).Namespace("default")
	text := make([]byte, 900_000)
	write := func() {
		for i := range 130 {
			for j := range text {
				text[j] = 'a' + byte(rand.N(26))
			}
			o := sample(ConfigMaps, fmt.Sprint("large", i), 0, 0)
			o.Object["data"] = map[string]any{"text": string(text)}
			_, err := client.Create(context.Background(), o, metav1.CreateOptions{})
			if err != nil {
				_, err = client.Update(context.Background(), o, metav1.UpdateOptions{})
			}
			must(t, err)
		}
	}
	write()
	e := StartExporter(t, "the first list", env)
	w.AwaitMarks(t, writer.Marks(kinds))
	first := e.PeakMemory(t)
	e.stop(t)
	gaps := 0
	for _, compacted := range []bool{false, true} {
		write()
		if compacted { // the states that are left are more than a recovery holds
			now, err := w.Kube.Revision(t.Context())
			must(t, err)
			must(t, w.Kube.Compact(t.Context(), now-40))
		}
		must(t, w.Kube.RestartAPIServer(t.Context()))
		e = StartExporter(t, "the recovery", env)
		w.AwaitMarks(t, writer.Marks(kinds))
		peak := e.PeakMemory(t)
		e.stop(t)
		var all []*change.Gap
		for _, c := range w.fileControls(t) {
			if c.Type == change.ControlGap {
				all = append(all, c.Gap)
			}
		}
		if len(all) != gaps+1 {
			t.Fatalf("%d gap records, want %d: %+v", len(all), gaps+1, all)
		}
		gap := all[gaps]
		gaps++
		t.Logf("first list %d MB, recovery %d MB, gap %+v", first>>20, peak>>20, gap)
		// Each object has changed once, so its state is its change. The program itself takes 34 MB, and MCP 4 of these.
		if gap.Complete == compacted || gap.Recovered < 130 || peak > 132<<20 {
			t.Errorf("recovered %+v with %d MB", gap, peak>>20)
		}
	}
}
