package e2e

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// In a quiet cluster a question about the last seconds has an answer before the next bookmark, which comes once a minute. It has no
// answer for a time at which the network is cut.
func TestAQuietClusterAnswersForTheLastMinute(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	kinds := []Kind{ConfigMaps, Deployments, Roles}
	writer := w.Writer(t, kinds).Fill(5)
	lane, env := w.atProxy(t, "KUBECDC_WATERMARK_INTERVAL", "1m", "KUBECDC_RESOURCES", Resources(kinds))
	StartExporter(t, "exporter", env).AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	for range 3 {
		asked, clock := time.Now(), servers.StartClock()
		Await(t, "an answer about a moment ago", func() (bool, error) { return len(w.lackingAt(t, kinds, asked)) == 0, nil })
		if took := clock.Passed(); took > 25*time.Second {
			t.Errorf("it takes %s until a moment has an answer", took)
		}
	}
	lane.Freeze()
	cut := time.Now()
	for clock := servers.StartClock(); time.Since(cut) < 70*time.Second && !clock.Late(); time.Sleep(5 * time.Second) {
		if lacks := w.lackingAt(t, kinds, cut.Add(2*time.Second)); len(lacks) < len(kinds) {
			t.Fatalf("while the network is cut, only this is lacking: %q", lacks)
		}
	}
	api, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	c := &configs{t, api}
	c.delete("fill0")
	must(t, lane.Restore())
	w.AwaitComplete(t, writer, kinds)
	if lacks := w.lackingAt(t, []Kind{ConfigMaps}, cut.Add(2*time.Second)); len(lacks) == 0 {
		t.Error("after the network was cut, it is known when an object was deleted meanwhile")
	}
	asked := time.Now()
	Await(t, "an answer about a moment after the cut", func() (bool, error) { return len(w.lackingAt(t, kinds, asked)) == 0, nil })
}

// lackingAt returns what the log lacks of the state at a time.
func (w *World) lackingAt(t *testing.T, kinds []Kind, asked time.Time) []string {
	t.Helper()
	var objects sinks.Objects
	for _, kind := range kinds {
		objects.Resources = append(objects.Resources, kind.ID())
	}
	states, err := query.ReadStates(t.Context(), w.openFile(t), query.Question{Objects: objects}, timeline.Target{Happened: asked})
	must(t, err)
	return states[0].Missing
}
