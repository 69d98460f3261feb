package inventory

import (
	"cmp"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
)

// effect is the effect of a batch on the checkpoint.
type effect struct {
	*change.Batch
	offsets change.Offsets
	objects []objectState // each once
}

// effectOf returns the effect of a written batch. If bodies are stored, it has the states of objects, and the bodies that were
// found. Snapshots on demand have no inventory. A sink may have written a stub instead of an object.
func effectOf(p *batching.Prepared, bodies bool) effect {
	all := make([]objectState, 0, len(p.All))
	for i := range p.All {
		o := &p.All[i]
		if o.ID.Stream.IsSnapshot() {
			continue
		}
		object := objectState{Object: checkpoint.Object{Key: o.ID.Key, UID: o.UID, ResourceVersion: o.Version},
			stream: o.ID.Stream, deleted: o.Deleted}
		if bodies && !o.Deleted {
			object.state = o.State
			if o.Written >= 0 {
				object.state = p.Changes[o.Written].After
			}
		}
		object.body, _ = o.Found.(*body)
		all = append(all, object)
	}
	return effect{p.Batch, p.Offsets, all}
}

// commitOf returns the commit of a batch that was read back.
func commitOf(batch *change.Batch, epoch int64, offsets change.Offsets, withBodies bool) checkpoint.Commit {
	p := &batching.Prepared{Batch: batch, Offsets: offsets}
	p.Find()
	p.LeaveOut(func(*change.Change) bool { return false }, false)
	e := effectOf(p, withBodies)
	for i := range e.objects {
		o := &e.objects[i]
		o.Body, o.state = checkpoint.Pack(o.state), nil
	}
	pending := newPending()
	pending.add(e)
	return pending.commit(batch.Slot, epoch)
}

// pending is the joint effect of consecutive batches on the checkpoint: each object once, with its last state.
type pending struct {
	first, last uint64
	positions   map[change.StreamID]change.Position
	offsets     change.Offsets
	objects     []objectState
	index       map[batching.ObjectID]int
	bytes       int64
	controls    []change.Control
}

// objectState is the last state of an object.
type objectState struct {
	checkpoint.Object
	stream  change.StreamID
	deleted bool
	state   []byte // set until Body is made, which then has at most a pending base
	body    *body  // makes Body at the commit; nil: it is made
	bytes   int64  // in pending.bytes
}

func (o *objectState) id() batching.ObjectID { return batching.ObjectID{Stream: o.stream, Key: o.Key} }

// stateBytes is about the size of an objectState here and in a commit, without its body and its key.
const stateBytes = 400

// size estimates the bytes of the object in a commit. Before the commit, the object takes at most four times as much memory.
func (o *objectState) size() int64 {
	n := int64(len(o.Key)+o.Body.Len()) + stateBytes
	if o.body != nil {
		n += max(o.body.stored(), int64(len(o.state)/4))
	}
	return n
}

func newPending() *pending {
	return &pending{positions: map[change.StreamID]change.Position{}, index: map[batching.ObjectID]int{}}
}

// reset empties it, and keeps its memory.
func (p *pending) reset() {
	clear(p.positions)
	clear(p.objects)
	clear(p.index)
	*p = pending{positions: p.positions, objects: p.objects[:0], index: p.index}
}

func (p *pending) add(e effect) {
	p.first, p.last = cmp.Or(p.first, e.Seq), e.Seq
	p.offsets = p.offsets.Merge(e.offsets)
	p.controls = append(p.controls, checkpoint.RetainedControls(e.Controls)...)
	for _, position := range e.Positions {
		p.positions[position.Stream] = position
	}
	for _, o := range e.objects {
		p.put(o)
	}
}

func (p *pending) put(o objectState) {
	if o.body != nil {
		o.body.set(o.state, p)
		o.state = o.body.state
	}
	id := o.id()
	i, ok := p.index[id]
	if ok && (o.body != nil || o.Body.KeepsBase()) {
		o.Body.Base = p.objects[i].Body.Base // the store gets it with this commit if it is pending
	}
	o.bytes = o.size()
	p.bytes += o.bytes
	if ok {
		p.bytes -= p.objects[i].bytes
		p.objects[i] = o
		return
	}
	p.index[id] = len(p.objects)
	p.objects = append(p.objects, o)
}

// concerns reports whether something of the stream is pending.
func (p *pending) concerns(stream change.StreamID) bool {
	if _, ok := p.positions[stream]; ok {
		return true
	}
	return slices.ContainsFunc(p.objects, func(o objectState) bool { return o.stream == stream })
}

func (p *pending) commit(slot int, epoch int64) checkpoint.Commit {
	streams := map[change.StreamID]*checkpoint.StreamCommit{}
	for i := range p.objects {
		o := &p.objects[i]
		s := streams[o.stream]
		if s == nil {
			s = &checkpoint.StreamCommit{Stream: o.stream}
			streams[o.stream] = s
		}
		if o.deleted {
			s.Deletes = append(s.Deletes, o.Key)
		} else {
			object := o.Object
			if o.body != nil {
				object.Body = o.body.commit(o.state, o.Body.Base)
			}
			s.Upserts = append(s.Upserts, object)
		}
	}
	commit := checkpoint.Commit{Slot: slot, Epoch: epoch, First: p.first, Seq: p.last, Offsets: p.offsets, Controls: p.controls,
		Positions: slices.Collect(maps.Values(p.positions))}
	for _, s := range streams {
		commit.Streams = append(commit.Streams, *s)
	}
	return commit
}
