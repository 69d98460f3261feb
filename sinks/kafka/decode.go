package kafka

import (
	"bytes"
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/consumer"
	"kubecdc/sinks/kafka/internal/encoding"
)

// decoder makes the changes of a batch from its records.
type decoder struct {
	batch   *tailBatch
	changes []change.Change
}

// addChange makes a change from a record. A tombstone only repeats the delete before it, unless compaction has removed that.
func (r *decoder) addChange(ctx context.Context, s encoding.Set, f consumer.Record) error {
	if _, ok := change.ParseOp(f.Headers[change.HeaderOp]); !ok {
		return nil
	}
	e, key, err := keyOf(s, &f)
	if err != nil {
		return err
	}
	c := changeOf(&f, key)
	if c.Op == change.Delete {
		if !r.repeatsDelete(&c) {
			r.changes = append(r.changes, c)
		}
		return nil
	}
	d, err := e.Decode(ctx, f.Value, f.Headers)
	if err != nil {
		return err
	}
	c.After = bytes.Clone(d.After) // without the object before it
	r.changes = append(r.changes, c)
	return nil
}

// isChange reports whether a record is of a change. Other programs may write to the topic too.
func isChange(r *consumer.Record) bool {
	_, ok := change.ParseOp(r.Headers[change.HeaderOp])
	return ok && r.Headers[change.HeaderStream] != "" && r.Headers[change.HeaderBatch] != ""
}

// keyOf returns a record's encoding, and which object it is about.
func keyOf(s encoding.Set, r *consumer.Record) (encoding.Encoding, encoding.Key, error) {
	if err := change.CheckVersion(r.Headers[change.HeaderVersion]); err != nil {
		return nil, encoding.Key{}, fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	e, err := s.Of(r.Headers)
	if err != nil {
		return nil, encoding.Key{}, fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	key, err := e.DecodeKey(r.Key)
	if err != nil {
		err = fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	return e, key, err
}

// plainKey returns the key by which a record's partition was chosen.
func plainKey(s encoding.Set, r *consumer.Record) []byte {
	e, key, err := keyOf(s, r)
	if err != nil || e.Keys() == encoding.PlainKeys {
		return r.Key
	}
	envelope := change.Envelope{Cluster: key.Cluster}
	return envelope.AppendKey(nil, &change.Change{Namespace: key.Namespace, Name: key.Name})
}

// changeOf makes a change without its body from a record's key and headers.
func changeOf(r *consumer.Record, key encoding.Key) change.Change {
	op, _ := change.ParseOp(r.Headers[change.HeaderOp])
	return change.Change{
		Stream: change.StreamFromID(change.StreamID(r.Headers[change.HeaderStream])), Op: op, Namespace: key.Namespace, Name: key.Name,
		UID: r.Headers[change.HeaderUID], ResourceVersion: change.ResourceVersion(r.Headers[change.HeaderResourceVersion]),
		Inferred: r.Headers[change.HeaderInferred] != "", Gap: r.Headers[change.HeaderGap],
	}
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
