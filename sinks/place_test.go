package sinks_test

import (
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// A cut knows batch 2 of slot 0, and offset 7 of a partition. The time of a change does not count: whoever asks for a cut by a time has found
// the last batches by then.
func TestWhatACutHas(t *testing.T) {
	cut := sinks.Cut{Batches: map[int]uint64{0: 2}, Offsets: change.Offsets{"t.pods": {1: 7}}}
	for _, tc := range []struct {
		name string
		l    sinks.Logged
		want bool
	}{
		{"the last batch", sinks.Logged{Slot: 0, Batch: 2, Topic: "t.pods", Partition: 1, Offset: 9}, true},
		{"the next batch", sinks.Logged{Slot: 0, Batch: 3, Topic: "t.pods", Partition: 1, Offset: 5}, false},
		{"the next batch, logged earlier by a clock", sinks.Logged{Slot: 0, Batch: 3, Logged: time.Unix(1, 0)}, false},
		{"a pruned batch", sinks.Logged{Slot: 0, Batch: 0, Logged: time.Unix(1<<40, 0)}, true},
		{"a pruned batch of an unknown slot", sinks.Logged{Slot: 5, Batch: 0}, true},
		{"an unknown slot, before the offset", sinks.Logged{Slot: 5, Batch: 1, Topic: "t.pods", Partition: 1, Offset: 6}, true},
		{"an unknown slot, at the offset", sinks.Logged{Slot: 5, Batch: 1, Topic: "t.pods", Partition: 1, Offset: 7}, false},
		{"an unknown slot of an unknown partition", sinks.Logged{Slot: 5, Batch: 1, Topic: "t.pods", Partition: 0}, false},
		{"an unknown slot of a log without offsets", sinks.Logged{Slot: 5, Batch: 1, Logged: time.Unix(1, 0)}, false},
	} {
		if got := cut.Has(&tc.l); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}
