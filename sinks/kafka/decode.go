package kafka

import (
	"bytes"
	"fmt"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// decoder makes the changes of a batch from its records.
type decoder struct {
	batch   *tailBatch
	parts   map[string][][]byte // of dead letters, by id
	changes []change.Change
}

// addPart keeps one part of a dead letter that has a stub. Malformed events have none.
func (r *decoder) addPart(f consumer.Record) error {
	if f.Headers[change.HeaderTopic] == "" {
		return nil
	}
	id := f.Headers[change.HeaderDeadLetter]
	part, err1 := strconv.Atoi(f.Headers[change.HeaderPart])
	parts, err2 := strconv.Atoi(f.Headers[change.HeaderParts])
	if err1 != nil || err2 != nil || part < 0 || part >= parts {
		return fmt.Errorf("dead letter %q at offset %d: part %q of %q",
			id, f.Offset, f.Headers[change.HeaderPart], f.Headers[change.HeaderParts])
	}
	if r.parts[id] == nil {
		r.parts[id] = make([][]byte, parts)
	}
	if part < len(r.parts[id]) {
		r.parts[id][part] = f.Value
	}
	return nil
}

// addChange makes a change from a record. A tombstone only repeats the delete before it, unless compaction has removed that.
func (r *decoder) addChange(f consumer.Record) error {
	if _, ok := change.ParseOp(f.Headers[change.HeaderOp]); !ok {
		return nil
	}
	c, err := changeOf(f)
	if err != nil {
		return err
	}
	if c.Op == change.Delete {
		if !r.repeatsDelete(&c) {
			r.changes = append(r.changes, c)
		}
		return nil
	}
	value := f.Value
	if id := f.Headers[change.HeaderDeadLetter]; id != "" {
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

// changeOf makes a change without its body from a record's key and headers.
func changeOf(r consumer.Record) (c change.Change, err error) {
	op, _ := change.ParseOp(r.Headers[change.HeaderOp])
	c = change.Change{
		Stream: change.StreamFromID(change.StreamID(r.Headers[change.HeaderStream])), Op: op,
		UID: r.Headers[change.HeaderUID], ResourceVersion: change.ResourceVersion(r.Headers[change.HeaderResourceVersion]),
		Inferred: r.Headers[change.HeaderInferred] != "", Gap: r.Headers[change.HeaderGap],
	}
	_, c.Namespace, c.Name, err = change.DecodeKey(r.Key)
	return c, err
}

func (r *decoder) repeatsDelete(c *change.Change) bool {
	if len(r.changes) == 0 {
		return false
	}
	last := &r.changes[len(r.changes)-1]
	return last.Op == change.Delete && last.UID == c.UID && last.Stream.ID() == c.Stream.ID() && last.Key() == c.Key()
}

// join returns the whole value of a dead letter.
func (r *decoder) join(id string) ([]byte, error) {
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

// check compares the number of changes with that in the batch record. If compaction has removed some, a deletion may be among
// them: then the last state of each object, which compaction keeps, must be read in place of the batches.
func (r *decoder) check() error {
	if found, want := len(r.changes), r.batch.Changes; found != want {
		return gone("batch %d has %d changes, %d of them", r.batch.Batch, want, want-found)
	}
	return nil
}
