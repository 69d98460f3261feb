package replay_test

import (
	"testing"

	"kubecdc/change"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// The plan for a log of two slots without topics had an unnamed topic.
func TestALogWithoutTopicsHasNoneThatSlotsShare(t *testing.T) {
	pod := sinks.Logged{}
	pod.Stream, pod.Op = change.ParseStream("pods@shop"), change.Create
	p := &replay.Plan{To: replay.Bound{Cut: &sinks.Cut{Batches: map[int]uint64{0: 1, 1: 1}}}}
	if err := p.Count(t.Context(), &log{changes: []sinks.Logged{pod}}, nil); err != nil || len(p.Shared) > 0 {
		t.Errorf("shared topics %q, error %v", p.Shared, err)
	}
}
