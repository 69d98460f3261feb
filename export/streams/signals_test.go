package streams

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/plan"
	"kubecdc/test/exporttest"
)

// An exporter answers a signal that it does not know, such as one from a newer release. It does so once, when the record of it is
// durable.
func TestASignalOfAnUnknownKindFails(t *testing.T) {
	store := exporttest.Owned(t)
	s := &plan.Slot{Config: plan.Config{Slots: 1, LeaseDuration: time.Minute}, Parts: exporttest.Parts(store), Logger: slog.New(slog.DiscardHandler)}
	q := batching.New(10, 1000, batching.Limits{MaxChanges: 10, MaxBytes: 1000})
	st := New(s, nil, 1, q, nil, &StoredRules{slot: s, epoch: 1}, nil)
	id, err := store.AddSignal(t.Context(), checkpoint.Signal{Kind: "sing", Stream: "pods"})
	mustDo(t, err)
	for range 2 {
		mustDo(t, st.followSignals(t.Context()))
	}
	if open, err := store.Signals(t.Context(), true); err != nil || len(open) != 1 {
		t.Fatalf("it is answered before that is durable: %+v, %v", open, err)
	}
	stop := make(chan struct{})
	close(stop)
	batch := q.Next(t.Context(), stop)
	if len(batch.Controls) != 1 || len(batch.Durable) != 1 || batch.Controls[0].Signal.State != change.SignalFailed {
		t.Fatalf("control records %+v", batch.Controls)
	}
	mustDo(t, batch.Durable[0](t.Context()))
	all, err := store.Signals(t.Context(), false)
	if err != nil || len(all) != 1 || all[0].ID != id || all[0].State != change.SignalFailed || !strings.Contains(all[0].Reason, "sing") {
		t.Fatalf("signals %+v, %v", all, err)
	}
}
