package commit

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"kubecdc/change"
	"kubecdc/export/batching"
)

// invariants verifies the invariants of docs/design.md with each batch, in builds with the tag invariants. It panics if one is
// violated.
type invariants struct {
	positions map[change.StreamID]change.ResourceVersion
	objects   map[batching.ObjectID]known
}

// known is the state of a living object after its last change.
type known struct {
	uid     string
	version change.ResourceVersion
}

func newInvariants() *invariants {
	return &invariants{map[change.StreamID]change.ResourceVersion{}, map[batching.ObjectID]known{}}
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic("an invariant is violated: " + fmt.Sprintf(format, args...))
	}
}

// verify verifies a batch that is about to be written after batch number after. A stream's versions may be lower than before
// after a gap record. They may also be lower if it is unknown how far the stream is complete, for example after a restore of
// etcd.
func (v *invariants) verify(p *batching.Prepared, after uint64) {
	must(p.Seq == after+1, "batch %d follows batch %d", p.Seq, after)
	for i := range p.Controls {
		if c := &p.Controls[i]; c.Type == change.ControlGap {
			v.forget(c.Stream)
		}
	}
	for _, position := range p.Positions {
		if position.ResourceVersion == "" || position.ResourceVersion == change.UnknownVersion {
			v.forget(position.Stream)
		}
		before := v.positions[position.Stream]
		must(position.ResourceVersion.Compare(before) >= 0, "batch %d moves %s from %s back to %s", p.Seq, position.Stream,
			before,
			position.ResourceVersion)
		v.positions[position.Stream] = position.ResourceVersion
	}
	for i := range p.Changes {
		v.change(p.Seq, &p.Changes[i])
	}
}

func (v *invariants) forget(stream change.StreamID) {
	delete(v.positions, stream)
	maps.DeleteFunc(v.objects, func(id batching.ObjectID, _ known) bool { return id.Stream == stream })
}

// change verifies that an object's changes are in the order of their versions, and that its uid never changes without a deletion.
// A change that was found by comparing states has the version of the comparison.
func (v *invariants) change(seq uint64, c *change.Change) {
	id := batching.ObjectID{Stream: c.Stream.ID(), Key: c.Key()}
	if id.Stream.IsSnapshot() {
		return
	}
	before, lives := v.objects[id]
	must(!lives || before.uid == c.UID, "batch %d has %s %s of uid %s, while the log has %s", seq, c.Op, id, c.UID, before.uid)
	must(!lives || c.Inferred || c.Gap != "" || c.ResourceVersion.Compare(before.version) >= 0,
		"batch %d has %s %s at %s, after %s", seq, c.Op, id, c.ResourceVersion, before.version)
	if c.Op == change.Delete {
		delete(v.objects, id)
	} else {
		v.objects[id] = known{c.UID, c.ResourceVersion}
	}
}

// remembered verifies that a log that returns its own state returns what was written: the positions and the bodies.
func (m *LogMemory) remembered(ctx context.Context, p *batching.Prepared) {
	for _, position := range p.Positions {
		found, seen, err := m.Position(ctx, position.Stream)
		must(err != nil || seen == (position.Ended != change.EndedRemoved) &&
			(!seen || found.ResourceVersion == position.ResourceVersion),
			"batch %d moves %s to %q, and the log remembers %q (%t)", p.Seq, position.Stream, position.ResourceVersion,
			found.ResourceVersion, seen)
	}
	for i := range p.All {
		o := &p.All[i]
		if o.Written < 0 || o.ID.Stream.IsSnapshot() {
			continue
		}
		var body []byte
		err := m.Memory.Bodies(ctx, o.ID.Stream, []string{o.ID.Key}, func(_ string, found []byte) error {
			body = bytes.Clone(found)
			return nil
		})
		must(err != nil || bytes.Equal(body, p.Changes[o.Written].After), "after batch %d the log remembers another body of %s",
			p.Seq, o.ID)
	}
}
