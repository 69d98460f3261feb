package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
)

// These are the name and the uid of the cluster of Place.Connect.
const (
	Name = "test"
	UID  = "uid-of-test"
)

func anotherCluster(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	known := w.write(t, log, batch(1, 1, object("a", 10)))
	w.write(t, log, batch(1, 2, object("a", 11)))
	for _, from := range []sinks.Durable{{}, {New: true}, {Seq: 1, Offsets: known}} {
		wantOther(t, w, slot, 9, from)
	}
	w.write(t, log, batch(1, 3, object("a", 12))) // this log was not fenced
	wantOther(t, w, slot, 9, sinks.Durable{Seq: 2, Offsets: known})
}

func anotherClusterElsewhere(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	w.write(t, log, batch(1, 1, object("a", 10)))
	wantOther(t, w, 64+slot, 1, sinks.Durable{New: true})
}

func wantOther(t *testing.T, w *world, slot int, epoch int64, from sinks.Durable) {
	t.Helper()
	foreign := w.another(t, Name, "uid-of-another")
	_, err := foreign.Open(t.Context(), slot, epoch, from)
	for _, err := range []error{err, foreign.VerifyCluster(t.Context(), slot, from)} {
		var other *sinks.OtherClusterError
		if !errors.As(err, &other) || other.Cluster != Name || other.Stored != UID || other.Found != "uid-of-another" {
			t.Errorf("from %+v: error is %v, want an OtherClusterError with both uids", from, err)
		}
	}
	if err := w.sink(t).VerifyCluster(t.Context(), slot, from); err != nil {
		t.Errorf("the cluster itself: %v", err)
	}
}

func everything(change.StreamID) bool { return true }

// state reads the state of the selected streams, like a new owner with a new checkpoint.
func (w *world) state(t *testing.T, slot int, epoch int64, wanted func(change.StreamID) bool) (sinks.Log, *sinks.State, map[string]change.Change) {
	t.Helper()
	opened := w.opened(t, slot, epoch, sinks.Durable{New: true})
	recovered, lost, err := Tail(t.Context(), opened)
	if wantBatches(t, recovered); err != nil || lost != nil {
		t.Fatalf("read the tail of slot %d with epoch %d: lost %v, error %v", slot, epoch, lost, err)
	}
	if opened.Memory != nil {
		state, objects := remembered(t, opened, wanted)
		state.Epoch = epoch - 1 // such a log is not asked for it
		return opened.Log, state, objects
	}
	state, err := opened.Content.State(t.Context(), sinks.Selection{Stream: wanted, Bodies: true})
	must(t, err)
	objects := map[string]change.Change{}
	_, err = state.Fold(t.Context(), func(c *change.Change) error {
		key := string(c.Stream.ID()) + " " + c.Key()
		if delete(objects, key); c.Op != change.Delete {
			objects[key] = *c
		}
		return nil
	}, func(sinks.Progress) {})
	must(t, err)
	return opened.Log, state, objects
}

func wantObjects(t *testing.T, got map[string]change.Change, want ...change.Change) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the log has %d objects, want %d: %v", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
	for _, w := range want {
		key := string(w.Stream.ID()) + " " + w.Key()
		g, ok := got[key]
		if !ok {
			t.Errorf("the log lacks %s", key)
			continue
		}
		g.Op = w.Op
		wantChange(t, key, g, w)
	}
}

func wantPositionsAt(t *testing.T, state *sinks.State, want map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	got := map[change.StreamID]change.ResourceVersion{}
	for _, p := range state.Positions {
		got[p.Stream] = p.ResourceVersion
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("positions are %v, want %v", got, want)
	}
}

// wrote returns a batch of any slot with the given positions.
func wrote(slot int, epoch int64, seq uint64, positions map[change.StreamID]change.ResourceVersion, changes ...change.Change) *change.Batch {
	b := batch(epoch, seq, changes...)
	b.Slot, b.Positions = slot, nil
	for _, stream := range slices.Sorted(maps.Keys(positions)) {
		b.Positions = append(b.Positions, change.Position{Stream: stream, ResourceVersion: positions[stream], Time: began.UTC()})
	}
	return b
}

// ofPods returns a batch of one stream. For a stream without records, it takes seconds to find out whether its topic is lost.
func ofPods(epoch int64, seq uint64, changes ...change.Change) *change.Batch {
	return wrote(slot, epoch, seq, map[change.StreamID]change.ResourceVersion{"pods": change.VersionOf(seq * 100)}, changes...)
}

func emptyState(t *testing.T, w *world) {
	_, state, objects := w.state(t, slot, 1, everything)
	if wantObjects(t, objects); state.Seq != 0 || state.Records != 0 || len(state.Positions) != 0 || state.Lost != nil {
		t.Errorf("the state of an empty log is %+v", state)
	}
}

func stateOfSlots(t *testing.T, w *world) {
	one, _ := w.open(t, 0, 1, sinks.Durable{})
	two, _ := w.open(t, 1, 4, sinks.Durable{})
	w.write(t, one, wrote(0, 1, 1, map[change.StreamID]change.ResourceVersion{"pods": "12", "nodes": "12"}, object("a", 10), object("c", 11), object("bee", 12)))
	second := wrote(0, 1, 2, map[change.StreamID]change.ResourceVersion{"pods": "14"}, object("a", 13), gone(object("c", 14)), object("again", 14))
	for _, kind := range []change.ControlType{change.ControlProof, change.ControlStreamPaused, change.ControlStreamResumed, change.ControlSignal, "of a newer version"} {
		for _, stream := range []change.StreamID{"pods", "other"} { // none of these is a position
			second.Controls = append(second.Controls, change.Control{Type: kind, Stream: stream, ResourceVersion: "99", Slot: 0, Epoch: 1, Batch: 2,
				Cluster: Name, TimeMs: began.UnixMilli()})
		}
	}
	w.write(t, one, second)
	// The streams are now spread over two slots.
	w.write(t, two, wrote(1, 4, 1, map[change.StreamID]change.ResourceVersion{"pods": "20"}, object("d", 15), object("a", 16), gone(object("again", 17)), object("again", 18)))
	_, state, objects := w.state(t, 2, 1, everything)
	wantObjects(t, objects, object("a", 16), object("d", 15), object("again", 18), object("bee", 12))
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"pods": "20", "nodes": "12"})
	if state.Seq != 0 {
		t.Errorf("slot 2 is at batch %d", state.Seq)
	}
	_, state, objects = w.state(t, 1, 5, func(stream change.StreamID) bool { return stream == "nodes" })
	wantObjects(t, objects, object("bee", 12))
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"nodes": "12"})
	if state.Seq != 1 {
		t.Errorf("slot 1 is at batch %d", state.Seq)
	}
}

func stateOfLists(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := wrote(slot, 1, 1, map[change.StreamID]change.ResourceVersion{"nodes": "5"}, object("a", 10))
	b.Controls = []change.Control{{Type: change.ControlSnapshotBegin, Cluster: Name, Stream: "pods"}, {Type: change.ControlSnapshotBegin, Cluster: Name, Stream: "nodes"}}
	w.write(t, log, b)
	_, state, _ := w.state(t, slot, 2, everything)
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"nodes": "5", "pods": ""})

	log, _ = w.open(t, slot, 3, sinks.Durable{})
	w.write(t, log, wrote(slot, 3, 2, map[change.StreamID]change.ResourceVersion{"pods": "20"}))
	b = wrote(slot, 3, 3, nil)
	b.Controls = []change.Control{{Type: change.ControlGap, Cluster: Name, Stream: "nodes", Gap: &change.Gap{From: change.UnknownVersion, To: "5"}}}
	w.write(t, log, b)
	_, state, _ = w.state(t, slot, 4, everything)
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"nodes": "", "pods": "20"})
}

func stateOfClusters(t *testing.T, w *world) {
	other, err := w.another(t, "elsewhere", "uid-of-elsewhere").Open(t.Context(), slot, 1, sinks.Durable{New: true})
	must(t, err)
	defer other.Log.Close()
	w.write(t, other.Log, batch(1, 1, object("a", 10), object("b", 11)))
	log, state, objects := w.state(t, slot, 1, everything)
	wantObjects(t, objects)
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{})
	w.write(t, log, wrote(slot, 1, 1, map[change.StreamID]change.ResourceVersion{"pods": "7"}, object("a", 7)))
	_, state, objects = w.state(t, slot, 2, everything)
	wantObjects(t, objects, object("a", 7))
	wantPositionsAt(t, state, map[change.StreamID]change.ResourceVersion{"pods": "7"})
}

// goOnFromState uses the state of the log as a checkpoint. Nothing is lost, and nothing is read twice.
func goOnFromState(t *testing.T, w *world) {
	var changes []change.Change
	for i := range 2500 {
		changes = append(changes, padded(fmt.Sprint("pod-", i), i+1, 500))
	}
	first, _ := w.open(t, slot, 1, sinks.Durable{})
	w.write(t, first, ofPods(1, 1, changes...))
	w.write(t, first, ofPods(1, 2, object("a", 9000)))
	log, state, objects := w.state(t, slot, 2, everything)
	wantObjects(t, objects, append(changes, object("a", 9000))...)
	if state.Seq != 2 || state.Epoch != 1 || state.Lost != nil {
		t.Errorf("the state is %+v", state)
	}
	if _, err := first.Write(t.Context(), ofPods(1, 3, object("a", 9001))); !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Errorf("the older owner's write: error %v, want ErrInvalidWriter", err)
	}
	durable := sinks.Durable{Seq: state.Seq, Offsets: state.Offsets}
	third := ofPods(2, 3, gone(object("a", 9002)))
	w.write(t, log, third)
	_, recovered := w.open(t, slot, 3, durable)
	wantBatches(t, recovered, third)
	_, _, objects = w.state(t, slot, 4, everything)
	wantObjects(t, objects, changes...)
}
