package kafka

import (
	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/encoding"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// Size is about how large a change's record is before compression: the images, and 800 bytes for key, source and headers.
func (l *slotLog) Size(index int32) int {
	return l.batch.Changes[index].Size() + 800 + l.encoder.Overhead()
}

// Append appends the record of a change; a delete is followed by its tombstone.
func (l *slotLog) Append(e *recordbatch.Encoder, index int32) {
	c, r := &l.batch.Changes[index], &l.record
	*r = recordbatch.Record{Time: c.Time.UnixMilli(), Key: l.key(index)}
	var letter *change.DeadLetter
	id := ""
	if s := l.stubs[index]; s != nil {
		letter, id = &s.letter, s.letter.ID
	}
	l.recordHeaders(r, c, c.Op.String(), id)
	l.encoder.Encode(r, c, letter)
	e.Append(r)
	if c.Op == change.Delete && !r.Tombstone {
		r.Tombstone = true
		l.recordHeaders(r, c, change.OpTombstone, id)
		e.Append(r)
	}
	l.headers = r.Headers
}

// recordHeaders sets the headers of a change's record in its data topic.
func (l *slotLog) recordHeaders(r *recordbatch.Record, c *change.Change, op, dead string) {
	r.Headers, r.HeaderCount = l.changeHeaders(c, op, dead)
	if name := l.encodingName(); name != "" {
		r.Headers = recordbatch.AppendHeader(r.Headers, change.HeaderEncoding, name)
		r.HeaderCount++
	}
}

// encodingName names the encoding in records; empty: Debezium's JSON.
func (l *slotLog) encodingName() string {
	if l.sink.cfg.Encoding == encoding.Debezium {
		return ""
	}
	return l.sink.cfg.Encoding
}

func (l *slotLog) key(index int32) []byte {
	start := 0
	if index > 0 {
		start = l.keyEnd[index-1]
	}
	return l.keys[start:l.keyEnd[index]]
}

// changeHeaders encodes the headers of a change's record. They are valid until the next call.
func (l *slotLog) changeHeaders(c *change.Change, op, dead string) ([]byte, int) {
	n := 4
	h := recordbatch.AppendHeader(l.headers[:0], change.HeaderOp, op)
	h = recordbatch.AppendHeader(h, change.HeaderUID, c.UID)
	h = recordbatch.AppendHeader(h, change.HeaderResourceVersion, string(c.ResourceVersion))
	h = recordbatch.AppendHeader(h, change.HeaderStream, string(c.Stream.ID()))
	if c.Namespace != "" {
		h = recordbatch.AppendHeader(h, change.HeaderNamespace, c.Namespace)
		n++
	}
	if c.Inferred {
		h = recordbatch.AppendHeader(h, change.HeaderInferred, "true")
		n++
	}
	if c.Gap != "" {
		h = recordbatch.AppendHeader(h, change.HeaderGap, c.Gap)
		n++
	}
	if dead != "" {
		h = recordbatch.AppendHeader(h, change.HeaderDeadLetter, dead)
		n++
	}
	l.headers = append(h, l.shared...)
	return l.headers, n + l.sharedCount
}
