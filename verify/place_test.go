package verify_test

import (
	"context"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/verify"
)

// oneBatch is a log with batch 3 of slot 0.
type oneBatch struct {
	sinks.Reader
	logged time.Time
}

func (l oneBatch) Controls(_ context.Context, _ time.Time, _ func(*sinks.Span) bool, visit func(*change.Control) error) error {
	return visit(&change.Control{Type: change.ControlBatch, Batch: 3, TimeMs: l.logged.UnixMilli(),
		BatchEnd: change.BatchEnd{Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "7"}}}})
}

// A position was set by batch 3 of slot 0, which was logged at second 100. Only slot 0 is known there.
func TestWhatAPositionHas(t *testing.T) {
	clock := func(ms int64) time.Time { return time.UnixMilli(100_000 + ms) }
	streams := []*change.Stream{pods}
	p, ok, err := verify.Log(oneBatch{logged: clock(0)}, nil, streams, nil)[0].Position(t.Context(), pods.ID(), clock(0))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, tc := range []struct {
		name string
		l    sinks.Logged
		want bool
	}{
		{"the batch, logged later by a clock", sinks.Logged{Batch: 3, Logged: clock(1000)}, true},
		{"the batch after, logged earlier by a clock", sinks.Logged{Batch: 4, Logged: clock(-1000)}, false},
		{"an unknown slot, earlier", sinks.Logged{Slot: 5, Batch: 9, Logged: clock(-1)}, true},
		{"an unknown slot, at that time", sinks.Logged{Slot: 5, Batch: 9, Logged: clock(0)}, true},
		{"an unknown slot, later", sinks.Logged{Slot: 5, Batch: 1, Logged: clock(1)}, false},
		{"a pruned batch, earlier", sinks.Logged{Batch: 0, Logged: clock(-1)}, true},
		{"a pruned batch, later", sinks.Logged{Batch: 0, Logged: clock(1)}, false}, // no log that is folded has one
		{"a pruned batch of an unknown slot, later", sinks.Logged{Slot: 5, Batch: 0, Logged: clock(1)}, false},
	} {
		if got := p.After.Has(&tc.l); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}
