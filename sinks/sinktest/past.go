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

// Name and UID are those of the cluster that Place.Connect is for.
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
	w.write(t, log, batch(1, 3, object("a", 12))) // it was not fenced
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
	for _, err := range []error{err, foreign.Meet(t.Context(), slot, from)} {
		var other *sinks.OtherClusterError
		if !errors.As(err, &other) || other.Cluster != Name || other.Stored != UID || other.Found != "uid-of-another" {
			t.Errorf("from %+v: error is %v, want an OtherClusterError with both uids", from, err)
		}
	}
	if err := w.sink(t).Meet(t.Context(), slot, from); err != nil {
		t.Errorf("the cluster itself: %v", err)
	}
}

func everything(change.StreamID) bool { return true }

// past reads all that is wanted, as a new owner with a new checkpoint.
func (w *world) past(t *testing.T, slot int, epoch int64, wanted func(change.StreamID) bool) (sinks.Log, *sinks.Past, map[string]change.Change) {
	t.Helper()
	log, recovered := w.open(t, slot, epoch, sinks.Durable{New: true})
	wantBatches(t, recovered)
	past, err := log.Past(t.Context(), sinks.Wanted{Stream: wanted, Bodies: true})
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]change.Change{}
	_, err = past.Fold(t.Context(), func(c *change.Change) error {
		key := string(c.Stream.ID()) + " " + c.Key()
		if delete(objects, key); c.Op != change.Delete {
			objects[key] = *c
		}
		return nil
	}, func(sinks.Folded) {})
	if err != nil {
		t.Fatal(err)
	}
	return log, past, objects
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
			t.Errorf("the log does not have %s", key)
			continue
		}
		g.Op = w.Op
		wantChange(t, key, g, w)
	}
}

func wantStands(t *testing.T, past *sinks.Past, want map[change.StreamID]change.ResourceVersion) {
	t.Helper()
	got := map[change.StreamID]change.ResourceVersion{}
	for _, p := range past.Positions {
		got[p.Stream] = p.ResourceVersion
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("positions are %v, want %v", got, want)
	}
}

// wrote is a batch with the positions given, of any slot.
func wrote(slot int, epoch int64, seq uint64, positions map[change.StreamID]change.ResourceVersion, changes ...change.Change) *change.Batch {
	b := batch(epoch, seq, changes...)
	b.Slot, b.Positions = slot, nil
	for _, stream := range slices.Sorted(maps.Keys(positions)) {
		b.Positions = append(b.Positions, change.Position{Stream: stream, ResourceVersion: positions[stream], Time: began.UTC()})
	}
	return b
}

func emptyPast(t *testing.T, w *world) {
	_, past, objects := w.past(t, slot, 1, everything)
	if wantObjects(t, objects); past.Seq != 0 || past.Records != 0 || len(past.Positions) != 0 || past.Lost != nil {
		t.Errorf("the past of an empty log is %+v", past)
	}
}

func pastOfSlots(t *testing.T, w *world) {
	one, _ := w.open(t, 0, 1, sinks.Durable{})
	two, _ := w.open(t, 1, 4, sinks.Durable{})
	w.write(t, one, wrote(0, 1, 1, map[change.StreamID]change.ResourceVersion{"pods": "12", "nodes": "12"}, object("a", 10), object("c", 11), object("bee", 12)))
	w.write(t, one, wrote(0, 1, 2, map[change.StreamID]change.ResourceVersion{"pods": "14"}, object("a", 13), gone(object("c", 14)), object("again", 14)))
	// The streams are spread over two slots now.
	w.write(t, two, wrote(1, 4, 1, map[change.StreamID]change.ResourceVersion{"pods": "20"}, object("d", 15), object("a", 16), gone(object("again", 17)), object("again", 18)))
	_, past, objects := w.past(t, 2, 1, everything)
	wantObjects(t, objects, object("a", 16), object("d", 15), object("again", 18), object("bee", 12))
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{"pods": "20", "nodes": "12"})
	if past.Seq != 0 {
		t.Errorf("slot 2 is at batch %d", past.Seq)
	}
	_, past, objects = w.past(t, 1, 5, func(stream change.StreamID) bool { return stream == "nodes" })
	wantObjects(t, objects, object("bee", 12))
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{"nodes": "12"})
	if past.Seq != 1 {
		t.Errorf("slot 1 is at batch %d", past.Seq)
	}
}

func pastOfLists(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := wrote(slot, 1, 1, map[change.StreamID]change.ResourceVersion{"nodes": "5"}, object("a", 10))
	b.Controls = []change.Control{{Type: change.ControlSnapshotBegin, Cluster: Name, Stream: "pods"}, {Type: change.ControlSnapshotBegin, Cluster: Name, Stream: "nodes"}}
	w.write(t, log, b)
	_, past, _ := w.past(t, slot, 2, everything)
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{"nodes": "5", "pods": ""})

	log, _ = w.open(t, slot, 3, sinks.Durable{})
	w.write(t, log, wrote(slot, 3, 2, map[change.StreamID]change.ResourceVersion{"pods": "20"}))
	b = wrote(slot, 3, 3, nil)
	b.Controls = []change.Control{{Type: change.ControlGap, Cluster: Name, Stream: "nodes", Gap: &change.Gap{From: change.UnknownVersion, To: "5"}}}
	w.write(t, log, b)
	_, past, _ = w.past(t, slot, 4, everything)
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{"nodes": "", "pods": "20"})
}

func pastOfClusters(t *testing.T, w *world) {
	other, err := w.another(t, "elsewhere", "uid-of-elsewhere").Open(t.Context(), slot, 1, sinks.Durable{New: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Log.Close()
	w.write(t, other.Log, batch(1, 1, object("a", 10), object("b", 11)))
	log, past, objects := w.past(t, slot, 1, everything)
	wantObjects(t, objects)
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{})
	w.write(t, log, wrote(slot, 1, 1, map[change.StreamID]change.ResourceVersion{"pods": "7"}, object("a", 7)))
	_, past, objects = w.past(t, slot, 2, everything)
	wantObjects(t, objects, object("a", 7))
	wantStands(t, past, map[change.StreamID]change.ResourceVersion{"pods": "7"})
}

// goOnFromPast takes what the past says as a checkpoint: nothing is lost by it, and nothing is read twice.
func goOnFromPast(t *testing.T, w *world) {
	var changes []change.Change
	for i := range 2500 {
		changes = append(changes, padded(fmt.Sprint("pod-", i), i+1, 500))
	}
	first, _ := w.open(t, slot, 1, sinks.Durable{})
	w.write(t, first, batch(1, 1, changes...))
	w.write(t, first, batch(1, 2, object("a", 9000)))
	log, past, objects := w.past(t, slot, 2, everything)
	wantObjects(t, objects, append(changes, object("a", 9000))...)
	if past.Seq != 2 || past.Epoch != 1 || past.Lost != nil {
		t.Errorf("the past is %+v", past)
	}
	if _, err := first.Write(t.Context(), batch(1, 3, object("a", 9001))); !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Errorf("the older owner's write: error %v, want ErrInvalidWriter", err)
	}
	at := sinks.Durable{Seq: past.Seq, Offsets: past.Offsets}
	third := batch(2, 3, gone(object("a", 9002)))
	w.write(t, log, third)
	_, recovered := w.open(t, slot, 3, at)
	wantBatches(t, recovered, third)
	_, _, objects = w.past(t, slot, 4, everything)
	wantObjects(t, objects, changes...)
}
