package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetched is a record read back.
type fetched struct {
	offset     int64
	key, value []byte // value is nil in a tombstone
	headers    map[string]string
}

// errGone: what was asked for is no longer in the log.
var errGone = errors.New("no longer in the log")

const fetchBytes = 8 << 20

// scan reads one partition from offset first up to and including last, as it was written, and gives visit every
// record that was committed, in order. A record of a transaction waits for the marker that ends it; one that
// finds no marker up to last is not committed. With committed set, all records are known to be.
//
// The fetch asks for uncommitted records and applies the markers here: asking for committed ones only would wait
// for the transactions of all other slots on the partition, and a client must filter the aborted ones even then.
func (c *client) scan(ctx context.Context, s *scanner) error {
	s.next, s.open = s.first, map[int64][]fetched{}
	op := fmt.Sprintf("read back %s/%d from offset %d", s.topic, s.partition, s.first)
	for s.next <= s.last {
		err := c.try(ctx, op, func(ctx context.Context) error { return c.scanOnce(ctx, s) })
		if err != nil {
			return err
		}
		if s.err != nil {
			return fmt.Errorf("%s: %w", op, s.err)
		}
	}
	return nil
}

// scanner is a range of one partition, and where its scan stands.
type scanner struct {
	topic       string
	partition   int32
	first, last int64
	committed   bool
	visit       func(fetched) error

	next  int64
	open  map[int64][]fetched // by producer id: records whose transaction has not ended yet
	empty bool                // the broker gave nothing
	err   error               // that ends the scan
}

func (c *client) scanOnce(ctx context.Context, s *scanner) error {
	p, err := c.fetch(ctx, s, s.next)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		s.err = fmt.Errorf("offset %d: %w", s.next, errGone)
		return nil
	}
	if err != nil {
		return err
	}
	s.err = s.read(p.RecordSet.Records, p.HighWatermark)
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

// fetch asks for what stands from an offset on.
func (c *client) fetch(ctx context.Context, s *scanner, offset int64) (*fetch.ResponsePartition, error) {
	m, err := c.roundTrip(ctx, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32((500 * time.Millisecond).Milliseconds()), MinBytes: 1, MaxBytes: fetchBytes,
		SessionID: 0, SessionEpoch: -1, // no fetch session (KIP-227)
		Topics: []fetch.RequestTopic{{Topic: s.topic, Partitions: []fetch.RequestPartition{{
			Partition: s.partition, CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: fetchBytes,
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

// read takes in the record batches of one answer.
func (s *scanner) read(records protocol.RecordReader, end int64) error {
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
		if err != nil {
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
		f, err := copyRecord(r)
		if err != nil {
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		}
		if f.offset < from || f.offset > s.last {
			continue
		}
		s.next = f.offset + 1
		if b.Attributes.Transactional() && !s.committed {
			s.open[b.ProducerID] = append(s.open[b.ProducerID], f)
		} else if err := s.visit(f); err != nil {
			return err
		}
	}
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

func copyRecord(r *protocol.Record) (fetched, error) {
	f := fetched{offset: r.Offset, headers: make(map[string]string, len(r.Headers))}
	for _, h := range r.Headers {
		f.headers[h.Key] = string(h.Value)
	}
	var err1, err2 error
	f.key, err1 = readBytes(r.Key)
	f.value, err2 = readBytes(r.Value)
	return f, errors.Join(err1, err2)
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
