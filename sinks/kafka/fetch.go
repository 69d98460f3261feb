package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"kubecdc/change"
)

// fetched is a record read back.
type fetched struct {
	offset     int64
	key, value []byte // value is nil in a tombstone
	headers    map[string]string
	control    *change.Control // of a control record, once it is decoded
	plain      bool            // not of a transaction
}

// errGone: what was asked for is no longer in the log.
var errGone = errors.New("no longer in the log")

// An answer is held in memory, decompressed: so much of it is asked for as that has been neither little nor much so far. A
// record batch that is larger comes alone.
const (
	firstFetch = 128 << 10
	mostFetch  = 4 << 20
	fewBytes   = 2 << 20 // of keys and values
	manyBytes  = 8 << 20
)

// scan reads one partition from offset first up to and including last, as it was written, and gives visit every
// record that was committed, in order. A record of a transaction waits for the marker that ends it; one that
// finds no marker up to last is not committed. With committed set, all records are known to be.
//
// The fetch asks for uncommitted records and applies the markers here: asking for committed ones only would wait
// for the transactions of all other slots on the partition, and a client must filter the aborted ones even then.
func (c *client) scan(ctx context.Context, s *scanner) error {
	return c.scanTo(ctx, s, s.last)
}

// scanTo scans up to an offset; from there the scan may go on later.
func (c *client) scanTo(ctx context.Context, s *scanner, last int64) error {
	for s.begin(last); !s.done(); {
		if err := c.scanNext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// scanNext scans what one answer holds.
func (c *client) scanNext(ctx context.Context, s *scanner) error {
	op := fmt.Sprintf("read back %s/%d from offset %d", s.topic, s.partition, s.next)
	err := c.try(ctx, op, func(ctx context.Context) error { return c.scanOnce(ctx, s) })
	if err == nil && s.err != nil {
		err = fmt.Errorf("%s: %w", op, s.err)
	}
	return err
}

// scanner is a range of one partition, and where its scan stands.
type scanner struct {
	topic       string
	partition   int32
	first, last int64
	committed   bool
	visit       func(fetched) error
	wanted      func(*fetched) bool  // by key and headers; nil: all are
	sight       func(*fetched) error // each record that is wanted, whatever becomes of its transaction; may be nil
	most        int32                // bounds the size of a fetch; 0: mostFetch

	next  int64
	open  map[int64][]fetched // by producer id: records whose transaction has not ended yet
	empty bool                // the broker gave nothing
	read  int64               // records, wanted or not
	size  int32               // of the next fetch
	bytes int                 // of keys and values in an answer
	err   error               // that ends the scan
}

// begin says up to where to scan, for the first time or when it goes on.
func (s *scanner) begin(last int64) {
	if s.last = last; s.open == nil {
		s.most = cmp.Or(s.most, mostFetch)
		s.next, s.open, s.size = s.first, map[int64][]fetched{}, min(firstFetch, s.most)
	}
}

func (s *scanner) done() bool { return s.next > s.last }

func (c *client) scanOnce(ctx context.Context, s *scanner) error {
	p, err := c.fetch(ctx, s, s.next)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		s.err = fmt.Errorf("offset %d: %w", s.next, errGone)
		return nil
	}
	if err != nil {
		return err
	}
	s.bytes = 0
	s.err = s.take(p.RecordSet.Records, p.HighWatermark)
	s.resize()
	if s.err == nil && s.empty {
		return c.scanNothing(ctx, s, p.HighWatermark)
	}
	return nil
}

// scanNothing judges an empty answer that comes from before the last offset. Where the partition's leader has an offset
// after the last, which it says by taking a fetch from there, the records wait for replicas that are away, for as long as
// those are: they are asked for again. Where it has none, they are lost.
func (c *client) scanNothing(ctx context.Context, s *scanner, end int64) error {
	_, err := c.fetch(ctx, s, s.last+1)
	switch {
	case errors.Is(err, kafka.OffsetOutOfRange):
		s.err = fmt.Errorf("the log ends at offset %d: %w", end, errGone)
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("offset %d is not replicated yet: %w", s.next, kafka.OffsetNotAvailable)
}

// readable makes sure that the user may read a topic, before anything is written to it: what can't be read back is of no
// use to the next owner. It asks for an offset that no log has, so that nothing is sent. A broker looks at the right first, so
// one that does not lead the partition, as the leader of a topic that was just created does not for a moment, answers as well.
func (c *client) readable(ctx context.Context, topic string) error {
	return c.try(ctx, "read topic "+topic, func(ctx context.Context) error {
		_, err := c.fetch(ctx, &scanner{topic: topic, size: 1}, math.MaxInt64)
		if errors.Is(err, kafka.OffsetOutOfRange) || errors.Is(err, kafka.NotLeaderForPartition) {
			return nil
		}
		return err
	})
}

// fetch asks for what stands from an offset on.
func (c *client) fetch(ctx context.Context, s *scanner, offset int64) (*fetch.ResponsePartition, error) {
	m, err := c.roundTrip(ctx, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32((500 * time.Millisecond).Milliseconds()), MinBytes: 1, MaxBytes: s.size,
		SessionID: 0, SessionEpoch: -1, // no fetch session (KIP-227)
		Topics: []fetch.RequestTopic{{Topic: s.topic, Partitions: []fetch.RequestPartition{{
			Partition: s.partition, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: s.size,
		}}}},
	})
	if err != nil {
		return nil, err
	}
	res := m.(*fetch.Response)
	if err := codeError(res.ErrorCode); err != nil {
		return nil, err
	}
	if len(res.Topics) == 0 || len(res.Topics[0].Partitions) == 0 {
		return nil, fmt.Errorf("the broker does not answer for %s/%d", s.topic, s.partition)
	}
	p := &res.Topics[0].Partitions[0]
	return p, codeError(p.ErrorCode)
}

// resize chooses the size of the next fetch.
func (s *scanner) resize() {
	switch {
	case s.bytes > manyBytes:
		s.size = max(s.size/2, firstFetch/8)
	case s.bytes < fewBytes:
		s.size = min(s.size*2, s.most)
	}
}

// take takes in the record batches of one answer.
func (s *scanner) take(records protocol.RecordReader, end int64) error {
	stream, ok := records.(*protocol.RecordStream)
	if !ok || len(stream.Records) == 0 {
		if s.empty = end <= s.last; !s.empty {
			s.next = s.last + 1 // the rest was compacted away
		}
		return nil
	}
	s.empty = false
	before := s.next
	for _, batch := range stream.Records {
		var err error
		switch b := batch.(type) {
		case *protocol.RecordBatch:
			err = s.readBatch(b)
		case *protocol.ControlBatch:
			err = s.readMarker(b)
		default:
			err = fmt.Errorf("offset %d: a record batch of a format older than Kafka 0.11", s.next)
		}
		if err != nil || s.done() {
			return err
		}
	}
	if s.next == before {
		s.next++ // in a batch whose last records were compacted away
	}
	return nil
}

func (s *scanner) readBatch(b *protocol.RecordBatch) error {
	from := s.next // a batch is read from its start, whatever was asked for
	s.next = max(s.next, b.BaseOffset+1)
	for {
		r, err := b.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		}
		f, wanted, err := s.copyRecord(r)
		if err != nil {
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		}
		if f.offset < from || f.offset > s.last {
			continue
		}
		s.next = f.offset + 1
		s.read++
		if !wanted {
			continue
		}
		f.plain = !b.Attributes.Transactional()
		if err := s.record(b, f); err != nil {
			return err
		}
	}
}

// record visits a record, or keeps it until its transaction ends.
func (s *scanner) record(b *protocol.RecordBatch, f fetched) error {
	if s.sight != nil {
		if err := s.sight(&f); err != nil {
			return err
		}
	}
	if f.plain || s.committed {
		return s.visit(f)
	}
	s.open[b.ProducerID] = append(s.open[b.ProducerID], f)
	return nil
}

// readMarker ends a transaction: its records are given to visit or forgotten.
// (Type 1 is a commit, 0 an abort: https://kafka.apache.org/documentation/#controlbatch)
func (s *scanner) readMarker(b *protocol.ControlBatch) error {
	s.next = max(s.next, b.BaseOffset+1)
	r, err := b.ReadControlRecord()
	if err != nil {
		return fmt.Errorf("decode a transaction marker at offset %d: %w", b.BaseOffset, err)
	}
	records := s.open[b.ProducerID]
	delete(s.open, b.ProducerID)
	if r.Type != 1 {
		return nil
	}
	for _, f := range records {
		if err := s.visit(f); err != nil {
			return err
		}
	}
	return nil
}

// copyRecord leaves the value of a record out that is not wanted.
func (s *scanner) copyRecord(r *protocol.Record) (f fetched, wanted bool, err error) {
	f = fetched{offset: r.Offset, headers: make(map[string]string, len(r.Headers))}
	for _, h := range r.Headers {
		f.headers[h.Key] = string(h.Value)
	}
	for _, part := range []protocol.Bytes{r.Key, r.Value} {
		if part != nil {
			s.bytes += part.Len()
		}
	}
	if f.key, err = readBytes(r.Key); err != nil {
		return f, false, err
	}
	if s.wanted != nil && !s.wanted(&f) {
		if r.Value != nil {
			r.Value.Close()
		}
		return f, false, nil
	}
	f.value, err = readBytes(r.Value)
	return f, true, err
}

func readBytes(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	out := make([]byte, b.Len())
	_, err := io.ReadFull(b, out)
	return out, err
}
