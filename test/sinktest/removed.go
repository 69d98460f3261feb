package sinktest

import (
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
)

// removed removes by hand what the log has of pods, while its owner writes. A reader, a write with a proof, and a new owner (also
// with a lost checkpoint) learn of the loss until a gap record says so. They learn of nothing else. (Each part of the contract
// demands that an untampered log has lost nothing, whenever it opens one.)
func removed(t *testing.T, w *world) {
	if w.place.Remove == nil {
		t.Skip("nobody removes anything from this log")
	}
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	from := sinks.Durable{Seq: 1, Offsets: w.write(t, log, batch(1, 1, object("a", 10), object("c", 11), object("bee", 12)))}
	next := func(changes ...change.Change) *change.Batch { return batch(1, from.Seq+1, changes...) }
	moved := next(updated("a", 13, 10), gone(object("c", 14)), object("d", 15))
	from = sinks.Durable{Seq: 2, Offsets: from.Offsets.Merge(w.write(t, log, moved))}
	w.wantLost(t, "pods", "")

	w.place.Remove(t, "pods")
	w.wantLost(t, "pods", "removed")
	w.wantLost(t, "nodes", "")
	proved := next()
	proved.Controls = []change.Control{change.ProofControl("nodes", "15", &change.Proof{}), change.ProofControl("pods", "15", &change.Proof{})}
	if _, err := log.Write(t.Context(), proved); err == nil {
		t.Error("a write with a proof gets no error")
	}
	opened := w.opened(t, slot, 2, from)
	recovered, lost, err := Tail(t.Context(), opened)
	must(t, err)
	for _, r := range recovered { // the batch with the proof may have been written
		from = sinks.Durable{Seq: r.Batch.Seq, Offsets: from.Offsets.Merge(r.Offsets)}
	}
	wantGone(t, lost, "pods", "nodes")
	if opened = w.opened(t, slot, 3, sinks.Durable{New: true}); opened.Memory != nil {
		from.Seq = opened.Last
		wantGone(t, opened.Lost, "pods", "nodes")
	} else {
		state, err := opened.Content.State(t.Context(), sinks.Selection{Stream: everything})
		must(t, err)
		wantGone(t, state.Lost, "pods", "nodes")
	}

	opened = w.opened(t, slot, 4, from)
	if _, lost, err = Tail(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	wantGone(t, lost, "pods", "nodes")
	record := wrote(slot, 4, from.Seq+1, nil)
	record.Controls = []change.Control{change.GapControl("pods", "15", change.Gap{From: change.UnknownVersion, To: "15"}, lost.Reason)}
	from = sinks.Durable{Seq: record.Seq, Offsets: from.Offsets.Merge(lost.Offsets).Merge(w.write(t, opened.Log, record))}
	w.wantLost(t, "pods", "")
	proved = wrote(slot, 4, from.Seq+1, nil, object("a", 13), object("d", 15), gone(object("d", 16)))
	proved.Controls = []change.Control{change.ProofControl("pods", "15", &change.Proof{})}
	from = sinks.Durable{Seq: proved.Seq, Offsets: from.Offsets.Merge(w.write(t, opened.Log, proved))}
	w.open(t, slot, 5, from)
	w.wantLost(t, "pods", "")
}

// wantLost demands that a reader reports a loss of a resource, or none if want is empty.
func (w *world) wantLost(t *testing.T, resource, want string) {
	t.Helper()
	retained, err := w.reader(t).Retained(t.Context(), []string{resource})
	lost := retained[resource].Lost
	if err != nil || (lost == "") != (want == "") || !strings.Contains(lost, want) {
		t.Errorf("a reader says that %s have lost %q, %v; want %q", resource, lost, err, want)
	}
}

func wantGone(t *testing.T, lost *sinks.LostTailError, gone, still change.StreamID) {
	t.Helper()
	if lost == nil || !lost.TailRead || lost.Gone == nil || !lost.Gone(gone) || lost.Gone(still) {
		t.Fatalf("the loss is %+v, want that records of %s are gone, and none of %s", lost, gone, still)
	}
}
