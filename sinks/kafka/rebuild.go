package kafka

import (
	"bytes"
	"fmt"
	"strconv"

	"kubecdc/change"
)

// rebuilder makes the changes of a batch out of its records.
type rebuilder struct {
	batch   *tailBatch
	parts   map[string][][]byte // of dead letters, by id
	changes []change.Change
}

// addPart keeps one part of a dead letter that a stub stands for; what could not be read has none.
func (r *rebuilder) addPart(f fetched) error {
	if f.headers[change.HeaderTopic] == "" {
		return nil
	}
	id := f.headers[change.HeaderDeadLetter]
	part, err1 := strconv.Atoi(f.headers[change.HeaderPart])
	parts, err2 := strconv.Atoi(f.headers[change.HeaderParts])
	if err1 != nil || err2 != nil || part < 0 || part >= parts {
		return fmt.Errorf("dead letter %q at offset %d: part %q of %q", id, f.offset, f.headers[change.HeaderPart], f.headers[change.HeaderParts])
	}
	if r.parts[id] == nil {
		r.parts[id] = make([][]byte, parts)
	}
	if part < len(r.parts[id]) {
		r.parts[id][part] = f.value
	}
	return nil
}

// addChange makes a change of a record. A tombstone only repeats the delete before it, unless compaction has
// left nothing but the tombstone.
func (r *rebuilder) addChange(f fetched) error {
	if len(f.headers[change.HeaderOp]) != 1 {
		return nil
	}
	c := change.Change{
		Stream: change.StreamFromID(change.StreamID(f.headers[change.HeaderStream])), Op: change.Op(f.headers[change.HeaderOp][0]),
		UID: f.headers[change.HeaderUID], ResourceVersion: change.ResourceVersion(f.headers[change.HeaderResourceVersion]),
		Inferred: f.headers[change.HeaderInferred] != "", Gap: f.headers[change.HeaderGap],
	}
	var err error
	if _, c.Namespace, c.Name, err = change.DecodeKey(f.key); err != nil {
		return err
	}
	if c.Op == change.Delete {
		if !r.repeatsDelete(&c) {
			r.changes = append(r.changes, c)
		}
		return nil
	}
	value := f.value
	if id := f.headers[change.HeaderDeadLetter]; id != "" {
		if value, err = r.join(id); err != nil {
			return err
		}
	}
	if c.After, err = change.DecodeAfter(value); err != nil {
		return err
	}
	r.changes = append(r.changes, c)
	return nil
}

func (r *rebuilder) repeatsDelete(c *change.Change) bool {
	if len(r.changes) == 0 {
		return false
	}
	last := &r.changes[len(r.changes)-1]
	return last.Op == change.Delete && last.UID == c.UID && last.Stream.ID() == c.Stream.ID() && last.Key() == c.Key()
}

// join gives the whole value of a dead letter.
func (r *rebuilder) join(id string) ([]byte, error) {
	parts := r.parts[id]
	if len(parts) == 0 {
		return nil, gone("dead letter %s", id)
	}
	for i, part := range parts {
		if part == nil {
			return nil, gone("part %d of dead letter %s", i, id)
		}
	}
	return bytes.Join(parts, nil), nil
}

// check compares the number of changes with what the batch record says. Where compaction has removed some, a deletion may be
// among them: then the last state of each object, which compaction keeps, is read instead of the batches.
func (r *rebuilder) check() error {
	if found, want := len(r.changes), r.batch.Changes; found != want {
		return gone("batch %d has %d changes, %d of them", r.batch.Batch, want, want-found)
	}
	return nil
}
