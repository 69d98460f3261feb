package kafka

import (
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
)

// decoder makes the changes of a batch from its records.
type decoder struct {
	batch   *tailBatch
	changes []change.Change
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
	if c.After, err = change.DecodeAfter(f.Value); err != nil {
		return err
	}
	r.changes = append(r.changes, c)
	return nil
}

// changeOf makes a change without its body from a record's key and headers.
func changeOf(r consumer.Record) (c change.Change, err error) {
	if err := change.CheckVersion(r.Headers[change.HeaderVersion]); err != nil {
		return c, fmt.Errorf("read the record at offset %d: %w", r.Offset, err)
	}
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

// check compares the number of changes with that in the batch record. If compaction has removed some, a deletion may be among
// them: then the last state of each object, which compaction keeps, must be read in place of the batches.
func (r *decoder) check() error {
	if found, want := len(r.changes), r.batch.Changes; found != want {
		return gone("batch %d has %d changes, %d of them", r.batch.Batch, want, want-found)
	}
	return nil
}
