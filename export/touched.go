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

// touched has the objects that a batch changes. Its memory is used again for each batch.
type touched struct {
	ids    []objectID       // of the batch's changes
	before []int            // the batch's change of the same object before each; -1: none
	again  []bool           // the batch has another change of the same object after each
	last   map[objectID]int // the last change of each object
	bodies map[objectID]newBody
	stored bool // the store has bodies
	// The objects whose last change is left out, at that version, with the body that the log has.
	leftOut map[objectID]checkpoint.Object
}

func (t *touched) read(batch *change.Batch) {
	if t.last == nil {
		t.last = make(map[objectID]int, len(batch.Changes))
	}
	clear(t.last)
	t.ids, t.before, t.again = t.ids[:0], t.before[:0], t.again[:0]
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectID{c.Stream.ID(), c.Key()}
		before, again := t.last[id]
		if again {
			t.again[before] = true
		} else {
			before = -1
		}
		t.ids, t.before, t.again = append(t.ids, id), append(t.before, before), append(t.again, false)
		t.last[id] = i
	}
}

// leaveOut sets the before-images that come from the batch itself, and takes out of it the changes that are not written. It returns
// how many these are, by resource.
func (t *touched) leaveOut(batch *change.Batch, f *filter, images bool) map[string]int {
	clear(t.leftOut)
	var out []bool
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if before := t.before[i]; before >= 0 && images && (c.Op == change.Update || c.Op == change.Delete) {
			if former := &batch.Changes[before]; out != nil && out[before] {
				c.Before = former.Before
			} else if former.Op != change.Delete {
				c.Before = former.After
			}
		}
		if c.Logged && c.Before == nil { // else the body was on its way when the store seemed to lack it
			c.Before = c.After
		}
		if f.leavesOut(c) {
			if out == nil {
				out = make([]bool, len(batch.Changes))
			}
			out[i] = true
		}
	}
	if out == nil {
		return nil
	}
	return t.takeOut(batch, out)
}

// takeOut takes changes out of the batch.
func (t *touched) takeOut(batch *change.Batch, out []bool) map[string]int {
	if t.leftOut == nil {
		t.leftOut = map[objectID]checkpoint.Object{}
	}
	ignored := map[string]int{}
	kept := batch.Changes[:0]
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if !out[i] {
			kept = append(kept, *c)
			continue
		}
		if !c.Logged {
			ignored[c.Stream.Resource.ID()]++
		}
		if id := t.ids[i]; t.last[id] == i {
			t.leftOut[id] = checkpoint.Object{Key: id.key, UID: c.UID, ResourceVersion: c.ResourceVersion, Body: t.body(id, c.Before)}
		}
	}
	clear(batch.Changes[len(kept):])
	batch.Changes = kept
	t.read(batch)
	return ignored
}

// newBody is an object's new body, made while its base was at hand; or that base, if it is not known yet what the log gets.
type newBody struct {
	state []byte // of which it was made
	body  checkpoint.Body
	base  []byte
}

func (t *touched) forgetBodies() {
	if t.bodies == nil {
		t.bodies = map[objectID]newBody{}
	}
	clear(t.bodies)
}

// based makes the body that an object has after the batch, from the base that the store has, or will have of what is pending. If changes
// may be left out it keeps the base.
func (t *touched) based(batch *change.Batch, id objectID, base []byte, maybeLeftOut bool) {
	switch last := &batch.Changes[t.last[id]]; {
	case maybeLeftOut:
		t.bodies[id] = newBody{base: base}
	case last.Op != change.Delete:
		t.bodies[id] = newBody{state: last.After, body: checkpoint.Update(base, last.After)}
	}
}

// body returns what the store gets of an object's new body: a delta, if its base is known.
func (t *touched) body(id objectID, state []byte) checkpoint.Body {
	if !t.stored {
		return checkpoint.Body{}
	}
	b := t.bodies[id]
	switch {
	case b.base != nil:
		return checkpoint.Update(b.base, state)
	case len(state) > 0 && len(b.state) == len(state) && &b.state[0] == &state[0]:
		return b.body
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
	all := make([]objectState, 0, len(t.last))
	for i := range batch.Changes {
		c, id := &batch.Changes[i], t.ids[i]
		if t.again[i] || id.stream.IsSnapshot() {
			continue
		}
		o := objectState{checkpoint.Object{Key: id.key, UID: c.UID, ResourceVersion: c.ResourceVersion}, id.stream, c.Op == change.Delete}
		if !o.deleted {
			o.Body = t.body(id, c.After)
		}
		if newer, ok := t.leftOut[id]; ok {
			o.ResourceVersion = newer.ResourceVersion
		}
		all = append(all, o)
	}
	for id, o := range t.leftOut {
		if _, changed := t.last[id]; !changed {
			all = append(all, objectState{o, id.stream, false})
		}
	}
	return effect{batch, offsets, all}
}

// commitOf returns the commit of a batch by itself.
func commitOf(batch *change.Batch, epoch int64, offsets change.Offsets, bodies bool) checkpoint.Commit {
	t := touched{stored: bodies}
	t.read(batch)
	return t.effect(batch, offsets).commit(epoch)
}

func (e effect) commit(epoch int64) checkpoint.Commit {
	p := newPending()
	p.add(e)
	return p.commit(e.Slot, epoch)
}
