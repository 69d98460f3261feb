package export

import (
	"cmp"
	"maps"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// pending is what some batches, which follow each other, do to the checkpoint: each object once, with its last state.
type pending struct {
	first, last uint64
	positions   map[change.StreamID]change.Position
	offsets     change.Offsets
	objects     []objectState
	index       map[objectID]int
	bytes       int64
	controls    []change.Control
}

// objectState is the last state of an object.
type objectState struct {
	checkpoint.Object
	stream  change.StreamID
	deleted bool
	loaded  bool // the former body was read for the batch
}

// stateBytes is about what an objectState takes here and in a commit, besides its body and its key.
const stateBytes = 400

func (o *objectState) size() int64 { return int64(len(o.Key)+o.Body.Len()) + stateBytes }

func newPending() *pending {
	return &pending{positions: map[change.StreamID]change.Position{}, index: map[objectID]int{}}
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
	p.controls = append(p.controls, checkpoint.KeptControls(e.Controls)...)
	for _, position := range e.Positions {
		p.positions[position.Stream] = position
	}
	for _, o := range e.objects {
		p.put(o)
	}
}

func (p *pending) put(o objectState) {
	id := objectID{o.stream, o.Key}
	if i, ok := p.index[id]; ok {
		former := &p.objects[i]
		if o.Body.KeepsBase() {
			o.Body.Base = former.Body.Base // which the store gets with this commit, if it is pending
		}
		p.bytes += o.size() - former.size()
		*former = o
		return
	}
	p.bytes += o.size()
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
			s.Upserts = append(s.Upserts, o.Object)
		}
	}
	commit := checkpoint.Commit{Slot: slot, Epoch: epoch, First: p.first, Seq: p.last, Offsets: p.offsets, Controls: p.controls,
		Positions: slices.Collect(maps.Values(p.positions))}
	for _, s := range streams {
		commit.Streams = append(commit.Streams, *s)
	}
	return commit
}
