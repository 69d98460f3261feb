package timeline

import (
	"testing"
	"time"

	"kubecdc/sinks"
)

// A point before a batch of slot 0, and the point after it. Only slot 0 is known there. The batch was logged at second 100.
func TestWhatAPointHas(t *testing.T) {
	clock := func(ms int64) time.Time { return time.UnixMilli(100_000 + ms) }
	m := Mark{Logged: clock(0), slot: 0, batch: 3, point: &point{n: 7, Point: sinks.Point{Place: sinks.Place{0: 2}, Logged: clock(0)}}}
	for _, tc := range []struct {
		name          string
		l             sinks.Logged
		before, after bool // whether the point before the batch has it, and the one after it
	}{
		{"the batch before, logged later by a clock", sinks.Logged{Batch: 2, Logged: clock(1000)}, true, true},
		{"the batch", sinks.Logged{Batch: 3, Logged: clock(0)}, false, true},
		{"the batch after, logged earlier by a clock", sinks.Logged{Batch: 4, Logged: clock(-1000)}, false, false},
		{"a pruned batch, earlier", sinks.Logged{Batch: 0, Logged: clock(-1)}, true, true},
		{"a pruned batch, at that time", sinks.Logged{Batch: 0, Logged: clock(0)}, false, true},
		{"a pruned batch, later", sinks.Logged{Batch: 0, Logged: clock(1)}, false, false},
		{"an unknown slot, earlier", sinks.Logged{Slot: 5, Batch: 9, Logged: clock(-1)}, true, true},
		{"an unknown slot, at that time", sinks.Logged{Slot: 5, Batch: 9, Logged: clock(0)}, false, true},
		{"an unknown slot, later", sinks.Logged{Slot: 5, Batch: 1, Logged: clock(1)}, false, false},
	} {
		if before, after := m.has(&tc.l), m.after().has(&tc.l); before != tc.before || after != tc.after {
			t.Errorf("%s: before the batch %t, after it %t, want %t and %t", tc.name, before, after, tc.before, tc.after)
		}
	}
	if (*point)(nil).has(&sinks.Logged{}) {
		t.Error("the start of the log has a change")
	}
}
