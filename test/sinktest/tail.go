package sinktest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
)

// brokenOff stops reading a tail after each batch in turn. Each next owner finds the rest, and nothing twice.
func brokenOff(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	var want []*change.Batch
	for seq := uint64(1); seq <= 4; seq++ {
		want = append(want, batch(1, seq, object(fmt.Sprint("a", seq), int(seq)), object("a", 10+int(seq)), object("b", 10+int(seq))))
		w.write(t, log, want[seq-1])
	}
	enough := errors.New("enough")
	if w.opened(t, slot, 2, sinks.Durable{}).Tail == nil {
		t.Skip("nobody reads a tail of this log")
	}
	var from sinks.Durable
	var got []sinks.Recovered
	for epoch := int64(3); epoch <= 6; epoch++ {
		err := w.opened(t, slot, epoch, from).Tail(t.Context(), func(r *sinks.Recovered) error {
			got = append(got, *r)
			from = sinks.Durable{Seq: r.Batch.Seq, Offsets: from.Offsets.Merge(r.Offsets)}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Errorf("epoch %d: error %v, want the error of the visit", epoch, err)
		}
	}
	wantBatches(t, got, want...)
	log, recovered := w.open(t, slot, 7, from)
	wantBatches(t, recovered)
	w.write(t, log, batch(7, 5, object("a", 20)))
}

func fencedInTheTail(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	want := []*change.Batch{batch(1, 1, object("a", 10)), batch(1, 2, object("b", 11)), batch(1, 3, gone(object("a", 12)))}
	for _, b := range want {
		w.write(t, log, b)
	}
	var got []sinks.Recovered
	fourth := batch(3, 4, object("a", 13))
	old := w.opened(t, slot, 2, sinks.Durable{})
	if old.Tail == nil {
		t.Skip("nobody reads a tail of this log")
	}
	err := old.Tail(t.Context(), func(r *sinks.Recovered) error {
		if len(got) == 0 {
			newer, recovered := w.open(t, slot, 3, sinks.Durable{})
			wantBatches(t, recovered, want...)
			w.write(t, newer, fourth)
		}
		got = append(got, *r)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantBatches(t, got, want...)
	if _, err := old.Log.Write(t.Context(), batch(2, 4, object("a", 14))); !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Errorf("the older owner's write: error %v, want ErrInvalidWriter", err)
	}
	_, recovered := w.open(t, slot, 4, sinks.Durable{})
	wantBatches(t, recovered, append(want, fourth)...)
}

// longTail reads a tail of 24 MB in batches of 1 MB.
func longTail(t *testing.T, w *world) {
	const batches, changes, size, most = 24, 50, 20_000, 12 << 20
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	for seq := range uint64(batches) {
		var list []change.Change
		for i := range changes {
			list = append(list, padded(fmt.Sprint("a", i), int(seq)*changes+i+1, size))
		}
		w.write(t, log, batch(1, seq+1, list...))
	}
	opened := w.opened(t, slot, 2, sinks.Durable{})
	if opened.Tail == nil {
		t.Skip("nobody reads a tail of this log")
	}
	log.Close()
	before, peak, seq := held(), uint64(0), uint64(0)
	err := opened.Tail(t.Context(), func(r *sinks.Recovered) error {
		if seq++; r.Batch.Seq != seq || len(r.Batch.Changes) != changes {
			t.Errorf("batch %d with %d changes, want batch %d with %d", r.Batch.Seq, len(r.Batch.Changes), seq, changes)
		}
		peak = max(peak, held())
		return nil
	})
	if err != nil || seq != batches {
		t.Fatalf("%d batches, error %v", seq, err)
	}
	if peak > before+most {
		t.Errorf("a tail of %d MB holds up to %d MB", batches*changes*size>>20, (peak-before)>>20)
	}
}

// held returns the size of the reachable heap.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
