package kafka

import (
	"kubecdc/change"
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// Size returns about how many bytes a change's record has before compression: the images, and 800 bytes for key, source and
// headers.
func (l *slotLog) Size(index int32) int {
	return l.batch.Changes[index].Size() + 800 + l.encoder.Overhead()
}

// Append appends the record of a change. A delete is followed by its tombstone.
func (l *slotLog) Append(e *recordbatch.Encoder, index int32) {
	c, r := &l.batch.Changes[index], &l.record
	l.encoded = encoding.Record{Key: l.key(index), Headers: l.encoded.Headers[:0]}
	var letter *change.DeadLetter
	id := ""
	if s := l.stubs[index]; s != nil {
		letter, id = &s.letter, s.letter.ID
	}
	l.encoder.Encode(&l.encoded, c, letter)
	*r = recordbatch.Record{Time: c.Time.UnixMilli(), Key: l.encoded.Key, Value: l.encoded.Value, Tombstone: l.encoded.Tombstone}
	l.recordHeaders(r, c, c.Op.String(), id)
	for _, h := range l.encoded.Headers {
		recordbatch.AddHeader(&r.Headers, h.Key, h.Value)
	}
	e.Append(r)
	if c.Op == change.Delete && !r.Tombstone {
		r.Tombstone = true
		l.recordHeaders(r, c, change.OpTombstone, id)
		e.Append(r)
	}
	l.headers = r.Headers.Bytes
}

// recordHeaders sets the headers of a change's record in its data topic.
func (l *slotLog) recordHeaders(r *recordbatch.Record, c *change.Change, op, dead string) {
	r.Headers = l.changeHeaders(c, op, dead)
	recordbatch.AddSomeHeader(&r.Headers, change.HeaderEncoding, l.encodingName())
}

// encodingName returns the name of the encoding for records, or "" for Debezium's JSON.
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
func (l *slotLog) changeHeaders(c *change.Change, op, dead string) recordbatch.Headers {
	h := recordbatch.Headers{Bytes: l.headers[:0]}
	recordbatch.AddHeader(&h, change.HeaderOp, op)
	recordbatch.AddHeader(&h, change.HeaderUID, c.UID)
	recordbatch.AddHeader(&h, change.HeaderResourceVersion, c.ResourceVersion)
	recordbatch.AddHeader(&h, change.HeaderStream, c.Stream.ID())
	recordbatch.AddSomeHeader(&h, change.HeaderNamespace, c.Namespace)
	if c.Inferred {
		recordbatch.AddHeader(&h, change.HeaderInferred, "true")
	}
	recordbatch.AddSomeHeader(&h, change.HeaderGap, c.Gap)
	recordbatch.AddSomeHeader(&h, change.HeaderDeadLetter, dead)
	l.headers = append(h.Bytes, l.shared.Bytes...)
	return recordbatch.Headers{Bytes: l.headers, Count: h.Count + l.shared.Count}
}
