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
	ids    []objectID          // of the batch's changes
	before []int               // the batch's change of the same object before each; -1: none
	again  []bool              // the batch has another change of the same object after each
	last   map[objectID]int    // the last change of each object
	bases  map[objectID][]byte // of the bodies that the store has, or will have of what is pending
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

func (t *touched) forgetBases() {
	if t.bases == nil {
		t.bases = map[objectID][]byte{}
	}
	clear(t.bases)
}

// body returns an object's new body: a delta, if its base is known.
func (t *touched) body(id objectID, state []byte) checkpoint.Body {
	if base, ok := t.bases[id]; ok {
		return checkpoint.Update(base, state)
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
func (t *touched) effect(batch *change.Batch, offsets change.Offsets, bodies bool) effect {
	all := make([]objectState, 0, len(t.last))
	for i := range batch.Changes {
		c, id := &batch.Changes[i], t.ids[i]
		if t.again[i] || id.stream.IsSnapshot() {
			continue
		}
		o := objectState{checkpoint.Object{Key: id.key, UID: c.UID, ResourceVersion: c.ResourceVersion}, id.stream, c.Op == change.Delete}
		if bodies && !o.deleted {
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
	var t touched
	t.read(batch)
	return t.effect(batch, offsets, bodies).commit(epoch)
}

func (e effect) commit(epoch int64) checkpoint.Commit {
	p := newPending()
	p.add(e)
	return p.commit(e.Slot, epoch)
}
