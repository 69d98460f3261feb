package replay_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/checkpoint"
	"kubecdc/internal/fault"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// store is a history in memory.
type store struct {
	checkpoint.Past                                 // the rest of it is unused
	rows            map[int][]checkpoint.Checkpoint // newest first
	positions       map[int][]change.Position
	streams         []change.Position
}

func (s *store) HistorySlots(context.Context) (slots []int, err error) {
	for slot := range s.rows {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots, nil
}

func (s *store) Select(_ context.Context, slot int, w checkpoint.Window) (found []checkpoint.Checkpoint, err error) {
	for _, r := range s.rows[slot] {
		if (w.Until.IsZero() || !r.Time.After(w.Until)) && (w.Batch == 0 || r.Seq == w.Batch) && (w.Limit == 0 || len(found) < w.Limit) {
			found = append(found, r)
		}
	}
	return found, nil
}

func (s *store) PositionsAt(_ context.Context, slot int, _ uint64) ([]change.Position, error) {
	return s.positions[slot], nil
}

func (s *store) Streams(context.Context) ([]change.Position, error) { return s.streams, nil }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func row(slot int, batch uint64, seconds int, offsets change.Offsets) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{Slot: slot, Epoch: 1, Seq: batch, Time: noon.Add(time.Duration(seconds) * time.Second), Offsets: offsets}
}

func positionOf(stream change.StreamID, version change.ResourceVersion, seconds int) change.Position {
	return change.Position{Stream: stream, ResourceVersion: version, Time: noon.Add(time.Duration(seconds) * time.Second)}
}

// A checkpoint has all slots. If several slots write to a partition, its offset is the lowest of theirs. If one of them has not
// written there, it has no offset, since that slot's next record may be anywhere.
func TestACheckpointIsOfAllSlots(t *testing.T) {
	s := &store{
		rows: map[int][]checkpoint.Checkpoint{
			0: {row(0, 9, 30, nil), row(0, 7, 10, change.Offsets{"k8s.pods": {0: 50, 1: 7}, "k8s.nodes": {0: 3}, "k8s.control": {0: 80}})},
			1: {row(1, 4, 8, change.Offsets{"k8s.pods": {0: 40}, "k8s.nodes": {0: 2}, "k8s.control": {0: 70}})},
			2: {row(2, 1, 20, nil)}, // stored later
		},
		positions: map[int][]change.Position{
			0: {positionOf("nodes", "10", 9), positionOf("pods@a", "11", 9)},
			1: {positionOf("nodes", "6", 1), positionOf("pods@b", "12", 8)}, // nodes have moved to slot 0
		},
		streams: []change.Position{positionOf("leases", "2", -9999), positionOf("nodes", "99", 40)},
	}
	c, err := replay.Find(t.Context(), s, moment.Moment{Batch: &moment.Batch{Number: 7}}, noon)
	check(t, err)
	if c.Name != "0/7" || len(c.Slots) != 2 || c.Slots[1].Batch != 4 {
		t.Errorf("it is %+v", c)
	}
	want := []change.Position{positionOf("leases", "2", -9999), positionOf("nodes", "10", 9), positionOf("pods@a", "11", 9), positionOf("pods@b", "12", 8)}
	if !reflect.DeepEqual(c.Positions, want) {
		t.Errorf("the positions are %v", c.Positions)
	}
	if want := (change.Offsets{"k8s.pods": {0: 40}, "k8s.nodes": {0: 3}, "k8s.control": {0: 70}}); !reflect.DeepEqual(c.Offsets, want) {
		t.Errorf("the offsets are %v, not %v", c.Offsets, want)
	}
	if shared := c.Shared(); !slices.Equal(shared, []string{"k8s.control", "k8s.pods"}) {
		t.Errorf("shared are %v", shared)
	}
	if cut := c.Cut(); !reflect.DeepEqual(cut.Batches, sinks.Place{0: 7, 1: 4}) {
		t.Errorf("it is at the batches %v", cut.Batches)
	}
}

// A group is moved in the topics that are named, or that it has read. A new group is moved in the topics of all resources.
func TestTheTopicsOfAGroup(t *testing.T) {
	topicsOf := func(topics ...string) change.Offsets {
		o := change.Offsets{}
		for _, topic := range topics {
			o[topic] = map[int]int64{0: 1}
		}
		return o
	}
	now, then := &replay.Checkpoint{Offsets: topicsOf("k8s.pods", "k8s.nodes", "k8s.control", "k8s.dead-letter")}, &replay.Checkpoint{Offsets: topicsOf("k8s.leases")}
	for _, tc := range []struct {
		committed change.Offsets
		named     []string
		want      string
	}{
		{nil, nil, "[k8s.leases k8s.nodes k8s.pods]"},
		{topicsOf("k8s.pods", "k8s.control", "other"), nil, "[k8s.control k8s.pods]"},
		{topicsOf("k8s.pods"), []string{"k8s.nodes", "k8s.leases"}, "[k8s.leases k8s.nodes]"},
	} {
		if got, err := replay.GroupTopics(now, then, tc.committed, tc.named, "k8s"); err != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("of %v, named %v: %v, %v", tc.committed, tc.named, got, err)
		}
	}
	var wrong fault.Usage
	if _, err := replay.GroupTopics(now, then, nil, []string{"k8s.podz"}, "k8s"); !errors.As(err, &wrong) {
		t.Errorf("a topic that the log does not have: %v", err)
	}
}

func TestTheOffsetsOfAGroupAreWithinTheLog(t *testing.T) {
	plan := replay.PlanGroup([]string{"k8s.pods"}, change.Offsets{"k8s.pods": {0: 5, 1: 20, 2: 90}}, change.Offsets{"k8s.pods": {1: 33}},
		change.Offsets{"k8s.pods": {0: 10, 1: 10, 2: 10, 3: 0}}, change.Offsets{"k8s.pods": {0: 50, 1: 50, 2: 50, 3: 50}})
	type p struct {
		current, next, lag int64
		gone               bool
	}
	var got []p
	for _, g := range plan {
		got = append(got, p{g.Current, g.New, g.Lag, g.Gone != ""})
	}
	if want := []p{{-1, 10, 40, true}, {33, 20, 30, false}, {-1, 50, 0, true}, {-1, 0, 50, false}}; !slices.Equal(got, want) {
		t.Errorf("the plan is %+v", plan)
	}
	if csv := replay.CSV(replay.NewOffsets(plan)); csv != "k8s.pods,0,10\nk8s.pods,1,20\nk8s.pods,2,50\nk8s.pods,3,0\n" {
		t.Errorf("as CSV it is\n%s", csv)
	}
}
