package export

import (
	"kubecdc/change"
	"kubecdc/checkpoint"
)

// objectID is the place of an object: its stream, and its key there.
type objectID struct {
	stream change.StreamID
	key    string
}

// touched has the objects that a batch changes, each once. Its memory is used again for each batch.
type touched struct {
	objects []touchedObject
	changed []int            // by change: the number of its object
	index   map[objectID]int // the number of an object
	stored  bool             // the store has bodies
}

// touchedObject is an object that a batch changes. leaveOut finds out what the log has of it after each change.
type touchedObject struct {
	id          objectID
	first, last int // of its changes, as the batch was collected
	uid         string
	version     change.ResourceVersion // as the API server has it
	state       []byte                 // as the log has it before the batch is written; nil: it was deleted
	written     int                    // its last change in the batch that is written; -1: none
	deleted     bool
	leftOut     bool            // the last change is not written
	loaded      bool            // its body was read from the store, so it is known that the object changes
	delta       []byte          // that is pending, and newer than the one that is read
	base        []byte          // of the body in the store, if it is kept until it is known what is written
	body        checkpoint.Body // of the state after the last change, made while the base was at hand
}

// read finds the objects of a batch.
func (t *touched) read(batch *change.Batch) {
	if t.index == nil {
		t.index = make(map[objectID]int, len(batch.Changes))
	}
	clear(t.index)
	t.objects, t.changed = t.objects[:0], t.changed[:0]
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectID{c.Stream.ID(), c.Key()}
		n, again := t.index[id]
		if !again {
			n = len(t.objects)
			t.index[id], t.objects = n, append(t.objects, touchedObject{id: id, first: i, written: -1})
		}
		t.objects[n].last, t.changed = i, append(t.changed, n)
	}
}

// leaveOut sets the before-images that come from the batch itself, and takes out of it the changes that are not written. It returns
// how many these are, by resource.
func (t *touched) leaveOut(batch *change.Batch, f *filter, images bool) map[string]int {
	ignored, kept := map[string]int{}, 0
	for i := range batch.Changes {
		c, o := &batch.Changes[i], &t.objects[t.changed[i]]
		if i > o.first && images && (c.Op == change.Update || c.Op == change.Delete) {
			c.Before = o.state
		}
		if c.Logged && c.Before == nil { // else the body was on its way when the store seemed to lack it
			c.Before = c.After
		}
		o.uid, o.version = c.UID, c.ResourceVersion
		if o.leftOut = f.leavesOut(c); o.leftOut {
			o.state = c.Before
			if !c.Logged {
				ignored[c.Stream.Resource.ID()]++
			}
			continue
		}
		o.state, o.deleted, o.written = c.After, c.Op == change.Delete, kept
		if kept < i {
			batch.Changes[kept] = *c
		}
		kept++
	}
	clear(batch.Changes[kept:])
	batch.Changes = batch.Changes[:kept]
	return ignored
}

// setBase takes the base that the store has of an object's body, or will have of what is pending. If all changes are written, the new body
// is made of it at once, and the base need not be kept.
func (o *touchedObject) setBase(batch *change.Batch, base []byte, keep bool) {
	switch last := &batch.Changes[o.last]; {
	case keep:
		o.base = base
	case last.Op != change.Delete:
		o.body = checkpoint.Update(base, last.After)
	}
}

// newBody returns what the store gets of an object's new body: a delta, if its base is known. A sink may have written a stub in its place.
func (o *touchedObject) newBody(batch *change.Batch) checkpoint.Body {
	state := o.state
	if o.written >= 0 {
		state = batch.Changes[o.written].After
	}
	switch {
	case o.base != nil:
		return checkpoint.Update(o.base, state)
	case !o.leftOut && !o.body.IsZero() && !change.IsStub(state):
		return o.body
	}
	return checkpoint.Pack(state)
}

// effect is what a batch does to the checkpoint.
type effect struct {
	*change.Batch
	offsets change.Offsets
	objects []objectState // each once
}

// effect returns the effect of the batch on the inventory too. Snapshots on demand have no inventory.
func (t *touched) effect(batch *change.Batch, offsets change.Offsets) effect {
	all := make([]objectState, 0, len(t.objects))
	for i := range t.objects {
		o := &t.objects[i]
		if o.id.stream.IsSnapshot() {
			continue
		}
		state := objectState{checkpoint.Object{Key: o.id.key, UID: o.uid, ResourceVersion: o.version}, o.id.stream, o.deleted, o.loaded}
		if t.stored && !o.deleted {
			state.Body = o.newBody(batch)
		}
		all = append(all, state)
	}
	clear(t.objects) // it holds no bodies until the next batch
	return effect{batch, offsets, all}
}

// commitOf returns the commit of a batch by itself.
func commitOf(batch *change.Batch, epoch int64, offsets change.Offsets, bodies bool) checkpoint.Commit {
	t := touched{stored: bodies}
	t.read(batch)
	t.leaveOut(batch, nil, false)
	return t.effect(batch, offsets).commit(epoch)
}

func (e effect) commit(epoch int64) checkpoint.Commit {
	p := newPending()
	p.add(e)
	return p.commit(e.Slot, epoch)
}
