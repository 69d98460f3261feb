package replay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/change/moment"
	"kubecdc/internal/fault"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// written is a log of pods and nodes. Batch n of slot 0 was logged n minutes past noon. Batches since minute 2 are retained.
type written struct{ sinks.Reader }

func (written) Resources(context.Context) ([]string, error) { return []string{"nodes", "pods"}, nil }
func (written) Retained(context.Context, []string) (map[string]sinks.Retained, error) {
	since := sinks.Retained{Since: noon.Add(2 * time.Minute)}
	return map[string]sinks.Retained{"nodes": since, "pods": since}, nil
}

func (written) CutAt(_ context.Context, logged time.Time) (sinks.Cut, error) {
	if logged.IsZero() {
		return batches(5), nil
	}
	if logged.Before(noon) {
		return sinks.Cut{}, sinks.ErrNotRetained
	}
	return batches(uint64(logged.Sub(noon) / time.Minute)), nil
}

func batches(n uint64) sinks.Cut { return sinks.Cut{Batches: map[int]uint64{0: n}} }

func TestAPlanHasTheBoundsThatWereAskedFor(t *testing.T) {
	minute := func(n int) moment.Moment { return moment.Moment{Time: noon.Add(time.Duration(n) * time.Minute)} }
	start, end, stored := moment.Moment{Start: true}, moment.Moment{}, moment.Moment{Batch: &moment.Batch{Number: 3}}
	const argument, lost = "argument", "not kept"
	for _, tc := range []struct {
		name       string
		from, to   moment.Moment
		incomplete bool
		batches    [2]int // -1: no cut
		fails      string
	}{
		{name: "all", from: start, to: end, batches: [2]int{-1, 5}},
		{name: "times", from: minute(2), to: minute(4), batches: [2]int{2, 4}},
		{name: "a checkpoint", from: stored, to: end, batches: [2]int{3, 5}},
		{name: "nothing", from: end, to: end, batches: [2]int{5, 5}},
		{name: "backwards", from: minute(4), to: minute(2), fails: argument},
		{name: "too old", from: minute(1), to: end, fails: lost},
		{name: "too old, but said", from: minute(1), to: end, incomplete: true, batches: [2]int{1, 5}},
		{name: "before the log", from: minute(-9), to: end, fails: lost},
		{name: "a state that is gone", from: start, to: minute(1), fails: lost},
		{name: "a state that is gone, but said", from: start, to: minute(1), incomplete: true, batches: [2]int{-1, 1}},
	} {
		q := replay.Request{From: replay.Asked{Flag: "--from", Moment: tc.from}, To: replay.Asked{Flag: "--to", Moment: tc.to},
			Incomplete: tc.incomplete,
			Checkpoint: func(_ context.Context, m moment.Moment) (*replay.Checkpoint, error) {
				return &replay.Checkpoint{Time: noon.Add(3 * time.Minute), Slots: []replay.Slot{{Batch: m.Batch.Number}}}, nil
			}}
		p, err := q.Plan(t.Context(), written{})
		var wrong fault.Usage
		var gone *replay.NotRetainedError
		switch {
		case tc.fails == argument && !errors.As(err, &wrong), tc.fails == lost && !errors.As(err, &gone), tc.fails == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.fails != "":
		case batchOf(p.From) != tc.batches[0] || batchOf(p.To) != tc.batches[1] || tc.incomplete != (len(p.Incomplete) > 0):
			t.Errorf("%s: from %+v to %+v, incomplete: %s", tc.name, p.From, p.To, strings.Join(p.Incomplete, "; "))
		}
	}
}

func batchOf(b replay.Bound) int {
	if b.Cut == nil {
		return -1
	}
	return int(b.Cut.Batches[0])
}
