package sinktest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// A log that remembers what it has reads nothing back for its owners. For such a log, the suite reads through a sinks.Reader what
// others recover.

// logged reads the batches of a slot after one.
func (w *world) logged(t *testing.T, slot int, after uint64) (all []sinks.Recovered) {
	t.Helper()
	r := w.reader(t)
	err := r.Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		if c.Type == change.ControlBatch && c.Slot == slot && c.Batch > after {
			all = append(all, sinks.Recovered{Batch: change.Batch{Slot: slot, Epoch: c.Epoch, Seq: c.Batch, Positions: c.Positions}})
		}
		return nil
	})
	must(t, err)
	for _, l := range read(t, r, sinks.Query{}) {
		if n := slices.IndexFunc(all, func(b sinks.Recovered) bool { return l.Slot == slot && l.Batch == b.Batch.Seq }); n >= 0 {
			all[n].Batch.Changes = append(all[n].Batch.Changes, l.Change)
		}
	}
	return all
}

// remembered returns what the log knows of some streams.
func remembered(t *testing.T, opened *sinks.Opened, wanted func(change.StreamID) bool) (*sinks.State, map[string]change.Change) {
	t.Helper()
	state, objects := &sinks.State{Seq: opened.Last, Lost: opened.Lost}, map[string]change.Change{}
	all, err := opened.Memory.Positions(t.Context())
	must(t, err)
	state.Positions = slices.DeleteFunc(all, func(p change.Position) bool { return !wanted(p.Stream) })
	for _, s := range []*change.Stream{pods, nodes} {
		if !wanted(s.ID()) {
			continue
		}
		var keys []string
		err := opened.Memory.Objects(t.Context(), s.ID(), func(key, uid string, version change.ResourceVersion) error {
			c := change.Change{Stream: s, UID: uid, ResourceVersion: version}
			c.Namespace, c.Name = change.SplitKey(key)
			keys, objects[string(s.ID())+" "+key] = append(keys, key), c
			return nil
		})
		if err == nil {
			err = opened.Memory.Bodies(t.Context(), s.ID(), keys, func(key string, body []byte) error {
				c := objects[string(s.ID())+" "+key]
				c.After = bytes.Clone(body)
				objects[string(s.ID())+" "+key] = c
				return nil
			})
		}
		must(t, err)
	}
	state.Records = int64(len(objects))
	return state, objects
}

// versionsAndPositions checks that the log knows the version of an update that is not written, until a change is written. It also
// forgets no stream with objects.
func versionsAndPositions(t *testing.T, w *world) {
	opened := w.opened(t, slot, 1, sinks.Durable{})
	if opened.Memory == nil {
		t.Skip("this log does not remember what it has")
	}
	want := func(version change.ResourceVersion, position change.ResourceVersion) {
		t.Helper()
		for _, o := range []*sinks.Opened{opened, w.opened(t, 64+slot, time.Now().UnixNano(), sinks.Durable{})} {
			_, objects := remembered(t, o, everything)
			p, known, err := o.Memory.Position(t.Context(), "pods")
			if got := objects["pods default/a"]; got.ResourceVersion != version || err != nil || !known || p.ResourceVersion != position {
				t.Errorf("the object is at %q, its stream at %q (%t, %v); want %s and %s", got.ResourceVersion, p.ResourceVersion, known, err, version, position)
			}
		}
	}
	if p, known, err := opened.Memory.Position(t.Context(), "pods"); err != nil || known {
		t.Errorf("of an empty log the position is %+v, %v", p, err)
	}
	w.write(t, opened.Log, ofPods(1, 1, object("a", 10)))
	want("10", "100")
	ignored := ofPods(1, 2, object("c", 11))
	ignored.Unwritten = []change.ObjectVersion{{Stream: "pods", Namespace: "default", Name: "a", UID: "uid-a", ResourceVersion: "15"},
		{Stream: "pods", Namespace: "default", Name: "none", UID: "uid-none", ResourceVersion: "15"}}
	w.write(t, opened.Log, ignored)
	want("15", "200")
	w.write(t, opened.Log, ofPods(1, 3, updated("a", 20, 10)))
	want("20", "300")
	unknown := ofPods(1, 4)
	unknown.Controls = []change.Control{{Type: change.ControlGap, Cluster: Name, Stream: "pods", Gap: &change.Gap{From: change.UnknownVersion, To: "300"}}}
	unknown.Positions = nil
	w.write(t, opened.Log, unknown)
	want("20", "")
}
