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
	last   map[objectID]int // the last change of each object
}

func (t *touched) read(batch *change.Batch) {
	if t.last == nil {
		t.last = make(map[objectID]int, len(batch.Changes))
	}
	clear(t.last)
	t.ids, t.before = t.ids[:0], t.before[:0]
	for i := range batch.Changes {
		c := &batch.Changes[i]
		id := objectID{c.Stream.ID(), c.Key()}
		before, again := t.last[id]
		if !again {
			before = -1
		}
		t.ids, t.before = append(t.ids, id), append(t.before, before)
		t.last[id] = i
	}
}

// states returns what the batch does to the inventory, by stream: the last state of each object. Bodies are packed. Snapshots on
// demand have no inventory.
func (t *touched) states(batch *change.Batch, bodies bool) []checkpoint.StreamCommit {
	var all []checkpoint.StreamCommit
	at := map[change.StreamID]int{}
	for i := range batch.Changes {
		c, id := &batch.Changes[i], t.ids[i]
		if t.last[id] != i || id.stream.IsSnapshot() {
			continue
		}
		n, ok := at[id.stream]
		if !ok {
			n = len(all)
			at[id.stream] = n
			all = append(all, checkpoint.StreamCommit{Stream: id.stream})
		}
		if c.Op == change.Delete {
			all[n].Deletes = append(all[n].Deletes, id.key)
			continue
		}
		o := checkpoint.Object{Key: id.key, UID: c.UID, ResourceVersion: c.ResourceVersion}
		if bodies {
			o.Body = checkpoint.Pack(c.After)
		}
		all[n].Upserts = append(all[n].Upserts, o)
	}
	return all
}

// commitOf returns what a batch changes in the checkpoint.
func commitOf(batch *change.Batch, epoch int64, offsets change.Offsets, bodies bool) checkpoint.Commit {
	var t touched
	t.read(batch)
	return t.commit(batch, epoch, offsets, bodies)
}

func (t *touched) commit(batch *change.Batch, epoch int64, offsets change.Offsets, bodies bool) checkpoint.Commit {
	return checkpoint.Commit{Slot: batch.Slot, Epoch: epoch, Seq: batch.Seq, Positions: batch.Positions, Offsets: offsets,
		Streams: t.states(batch, bodies)}
}
