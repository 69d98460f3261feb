package logread

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/consumer"
)

// Span is a part of a partition: the offsets from First up to Next.
type Span struct {
	Topic       string
	Partition   int32
	First, Next int64
}

// Changes is what to read of a span of a data topic.
type Changes struct {
	Span
	Committed bool // all of it is known to be committed, in finished batches
	Bodies    Bodies
	Each      func() // called for each record, selected or not; may be nil
	// Keys, if not nil, gets the plain key of each change of the cluster, selected or not.
	Keys func(plain []byte)
	// Selected selects by headers and by the place of a record, Wanted also by key. nil selects all.
	Selected, Wanted func(*sinks.Logged) bool
	// Loose decides about changes that were written without a transaction, whose batch may never have been finished (Owners).
	Loose func(context.Context, *sinks.Logged) (bool, error)
	// Visit gets each selected change, except tombstones after their delete.
	Visit func(*sinks.Logged) error
}

// Bodies is the needed part of a record's value.
type Bodies int

// These are the parts.
const (
	All   Bodies = iota // the object before and after the change, and who made it
	After               // the object after the change
	Size                // only the original bytes
	Nothing
)

// Changes returns a reader of the changes, which begins at the offset First. It does not stop at Next: the caller says how far
// it reads (ReadTo, Fetch).
func (l *Log) Changes(ctx context.Context, c Changes) *consumer.Reader {
	r := &changeReader{Changes: c, ctx: ctx, log: l, streams: map[change.StreamID]*change.Stream{}, deleted: -2}
	return consumer.New(l.Client, consumer.Range{Topic: c.Topic, Partition: c.Partition, First: c.First, Committed: c.Committed,
		NoValues: c.Bodies == Nothing, Wanted: r.wanted, Visit: r.visit})
}

type changeReader struct {
	Changes
	ctx     context.Context
	log     *Log
	streams map[change.StreamID]*change.Stream // nil: its changes are in another topic
	next    found                              // the record that may be selected
	plain   []byte

	deleted    int64 // the offset of the last delete
	deletedUID string
}

// found is a record that was selected.
type found struct {
	sinks.Logged
	encoding encoding.Encoding
	err      error // why its key can't be read
}

// wanted selects a record by its key and headers. If the key can't be read, that is an error once the record is committed.
func (r *changeReader) wanted(f *consumer.Record) bool {
	if r.Each != nil {
		r.Each()
	}
	if !isChange(f) {
		return false
	}
	l := &r.next
	l.Logged = fromHeaders(f, l.Headers[:0])
	l.Topic, l.Partition, l.Offset, l.Key = r.Topic, int(r.Partition), f.Offset, f.Key
	if l.Stream = r.stream(change.StreamID(f.Headers[change.HeaderStream])); l.Stream == nil {
		return false
	}
	isSelected := r.Selected == nil || r.Selected(&l.Logged)
	if !isSelected && r.Keys == nil {
		return false
	}
	var key encoding.Key
	if l.encoding, key, l.err = r.log.Key(f); l.err == nil {
		l.Namespace, l.Name = key.Namespace, key.Name
		if l.Cluster = key.Cluster; !r.log.Has(key.Cluster) {
			return false
		}
		if r.Keys != nil {
			r.plain = r.log.Envelope.AppendKey(r.plain[:0], &l.Change)
			r.Keys(r.plain)
		}
	}
	if !isSelected || l.err == nil && r.Wanted != nil && !r.Wanted(&l.Logged) {
		return false
	}
	selected := *l
	selected.Headers = slices.Clone(l.Headers)
	f.Data = &selected
	return true
}

// isChange reports whether a record is a change. Other programs may write to the topic, too.
func isChange(r *consumer.Record) bool {
	_, ok := change.ParseOp(r.Headers[change.HeaderOp])
	return ok && r.Headers[change.HeaderStream] != "" && r.Headers[change.HeaderBatch] != ""
}

func fromHeaders(f *consumer.Record, headers []sinks.Header) sinks.Logged {
	op, _ := change.ParseOp(f.Headers[change.HeaderOp])
	for _, name := range f.Order {
		headers = append(headers, sinks.Header{Key: name, Value: f.Headers[name]})
	}
	l := sinks.Logged{Logged: f.Time, Headers: headers, DeadLetter: f.Headers[change.HeaderDeadLetter],
		Change: change.Change{Op: op, UID: f.Headers[change.HeaderUID], Time: f.Time,
			ResourceVersion: change.ResourceVersion(f.Headers[change.HeaderResourceVersion]),
			Inferred:        f.Headers[change.HeaderInferred] != "", Gap: f.Headers[change.HeaderGap]}}
	l.Slot, _ = strconv.Atoi(f.Headers[change.HeaderSlot])
	l.Epoch, _ = strconv.ParseInt(f.Headers[change.HeaderEpoch], 10, 64)
	l.Batch, _ = strconv.ParseUint(f.Headers[change.HeaderBatch], 10, 64)
	return l
}

// stream returns the stream with this id, or nil if its changes don't belong in the topic, which may be another prefix's.
func (r *changeReader) stream(id change.StreamID) *change.Stream {
	s, known := r.streams[id]
	if !known {
		if s = change.ParseStream(id); change.Topic(r.log.Envelope.Prefix, s.Resource) != r.Topic {
			s = nil
		}
		r.streams[id] = s
	}
	return s
}

// Key returns a record's encoding, and the object that it is about.
func (l *Log) Key(r *consumer.Record) (encoding.Encoding, encoding.Key, error) {
	err := change.CheckVersion(r.Headers[change.HeaderVersion])
	var e encoding.Encoding
	if err == nil {
		e, err = l.Encodings.ByHeaders(r.Headers)
	}
	var key encoding.Key
	if err == nil {
		key, err = e.DecodeKey(r.Key)
	}
	if err != nil {
		err = fmt.Errorf("offset %d: %w", r.Offset, err)
	}
	return e, key, err
}

// visit visits a committed change.
func (r *changeReader) visit(f consumer.Record) error {
	l := f.Data.(*found)
	if !f.Transactional && !r.Committed {
		if counts, err := r.Loose(r.ctx, &l.Logged); err != nil || !counts {
			return err
		}
	}
	if l.err != nil {
		return l.err
	}
	if f.Value == nil && f.Offset == r.deleted+1 && l.UID == r.deletedUID {
		return nil // the tombstone of that delete
	}
	if l.Op == change.Delete && f.Value != nil {
		r.deleted, r.deletedUID = f.Offset, l.UID
	}
	if err := r.decode(l, &f); err != nil {
		return fmt.Errorf("offset %d: %w", f.Offset, err)
	}
	return r.Visit(&l.Logged)
}

// decode sets the content of the record's value.
func (r *changeReader) decode(l *found, f *consumer.Record) error {
	if r.Bodies == Nothing {
		return nil
	}
	l.Value = f.Value
	if f.Value == nil || r.Bodies == Size || r.Bodies == After && l.Op == change.Delete {
		return nil
	}
	d, err := l.encoding.Decode(r.ctx, f.Value, f.Headers)
	if l.After = d.After; r.Bodies == After {
		return err
	}
	l.Before, l.Provenance = d.Before, d.Provenance
	if d.JSON != nil {
		l.JSONKey, l.JSONValue = r.log.Envelope.AppendKey(nil, &l.Change), d.JSON
	}
	return err
}
