// Package consumer reads a range of one partition and gives only the records that were committed, which kafka-go's Reader does
// not: a client must filter the records of aborted transactions itself (KIP-98, "Consumer" and "Control messages";
// https://kafka.apache.org/documentation/#controlbatch).
//
// Unlike a consumer with isolation.level=read_committed it fetches uncommitted records too, and applies the transaction markers
// that stand in the partition. The last stable offset, up to which read_committed fetches, waits for the open transactions of
// every producer on the partition; here a record waits only for the end of its own. It knows no consumer groups and nothing of
// what the records hold.
package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"kubecdc/sinks/kafka/internal/cluster"
)

// ErrGone is the error for records that are no longer in the log.
var ErrGone = errors.New("no longer in the log")

// Record is a record that was read.
type Record struct {
	Offset        int64
	Key, Value    []byte // Value is nil in a tombstone
	Headers       map[string]string
	Order         []string // the names of the headers, in their order
	Time          time.Time
	Transactional bool
	Data          any // the caller's own; Range.Fetched may set it
}

// Range is what to read of one partition.
type Range struct {
	Topic     string
	Partition int32
	First     int64
	// Committed: all records are known to be committed, so no marker is waited for.
	Committed bool
	// Wanted chooses records by key and headers, before their value is copied; nil: all.
	Wanted func(*Record) bool
	// NoValues: values are not copied; they are empty, and those of tombstones nil.
	NoValues bool
	// Fetched gets each wanted record, whether or not its transaction commits; may be nil.
	Fetched func(*Record) error
	// Visit gets each wanted record that was committed, in the order of the offsets. Only a transaction that has not ended after
	// maxHeld bytes more, or at the end of what is read, is overtaken: its records come when it commits.
	Visit func(Record) error
	// MaxBytes bounds the size of a fetch; 0: 4 MiB.
	MaxBytes int32
}

// Reader reads a range. A record of a transaction is kept in memory until the marker that ends the transaction; one that
// finds no marker in the range is not committed.
type Reader struct {
	Range
	client *cluster.Client

	next      int64
	last      int64             // up to and including
	queue     []*held           // wanted records from the first one on whose transaction has not ended yet
	held      int               // bytes in the queue
	open      map[int64][]*held // by producer id: those whose transaction has not ended yet
	empty     bool              // the answer had no records
	records   int64
	whole     int64 // up to which offset none is lacking since hole
	hole      int64
	fetchSize int32
	bytes     int   // of keys and values in an answer
	err       error // that ends the reading
}

// held is a record that waits for the end of its transaction, or for one before it.
type held struct {
	Record
	decided, committed bool
}

// maxHeld is how many bytes are held behind a transaction that does not end.
const maxHeld = 8 << 20

// New makes a reader at the start of its range.
func New(c *cluster.Client, r Range) *Reader {
	r.MaxBytes = cmp.Or(r.MaxBytes, maxFetch)
	return &Reader{Range: r, client: c, next: r.First, whole: r.First, hole: r.First, open: map[int64][]*held{}, fetchSize: min(firstFetch, r.MaxBytes)}
}

// Records counts the records read so far, wanted or not.
func (s *Reader) Records() int64 { return s.records }

// Hole returns the offset from which on no record was lacking in what was read: compaction leaves holes where it removes records. It
// is that of the range's start if there was none.
func (s *Reader) Hole() int64 {
	if s.done() && s.whole <= s.last {
		return s.last + 1
	}
	return s.hole
}

// reach notes the next offset that is not a hole.
func (s *Reader) reach(offset int64) {
	if offset > s.whole {
		s.hole = offset
	}
	s.whole = max(s.whole, offset+1)
}

// Open reports whether a wanted record was read whose transaction has not ended in what was read.
func (s *Reader) Open() bool { return len(s.open) > 0 }

// ReadTo reads up to and including an offset. A later call goes on from there.
func (s *Reader) ReadTo(ctx context.Context, last int64) error {
	for {
		if more, err := s.Fetch(ctx, last); err != nil || !more {
			return err
		}
	}
}

// Fetch reads what the answer to one fetch holds, up to and including an offset, and reports whether there was anything left
// to read.
func (s *Reader) Fetch(ctx context.Context, last int64) (more bool, err error) {
	if s.last = last; s.done() {
		return false, nil
	}
	op := fmt.Sprintf("read back %s/%d from offset %d", s.Topic, s.Partition, s.next)
	err = s.client.Try(ctx, op, s.fetchOnce)
	if err == nil && s.err == nil && s.done() {
		s.err = s.deliver(true)
	}
	if err == nil && s.err != nil {
		err = fmt.Errorf("%s: %w", op, s.err)
	}
	return true, err
}

func (s *Reader) done() bool { return s.next > s.last }

// readAnswer reads the record batches of one answer.
func (s *Reader) readAnswer(records protocol.RecordReader, highWatermark int64) error {
	stream, ok := records.(*protocol.RecordStream)
	if !ok || len(stream.Records) == 0 {
		if s.empty = highWatermark <= s.last; !s.empty {
			s.next = s.last + 1 // the rest was removed by compaction
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
			err = fmt.Errorf("offset %d: a record batch in the format of a Kafka before 0.11", s.next)
		}
		if err != nil || s.done() {
			return err
		}
	}
	if s.next == before {
		s.next++ // in a batch whose last records were removed by compaction
	}
	return nil
}

func (s *Reader) readBatch(b *protocol.RecordBatch) error {
	from := s.next // brokers send a batch from its start, whichever offset was asked for
	s.next = max(s.next, b.BaseOffset+1)
	for {
		r, err := b.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		}
		if r.Offset >= from && r.Offset <= s.last {
			s.reach(r.Offset)
		}
		f, wanted, err := s.copyRecord(r)
		if err != nil {
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		}
		if f.Offset < from || f.Offset > s.last {
			continue
		}
		s.next = f.Offset + 1
		s.records++
		if !wanted {
			continue
		}
		f.Transactional = b.Attributes.Transactional()
		if err := s.record(b, f); err != nil {
			return err
		}
	}
}

// record delivers a record, or keeps it until its transaction ends.
func (s *Reader) record(b *protocol.RecordBatch, f Record) error {
	if s.Fetched != nil {
		if err := s.Fetched(&f); err != nil {
			return err
		}
	}
	h := &held{Record: f, decided: !f.Transactional || s.Committed, committed: true}
	if h.decided && len(s.queue) == 0 {
		return s.Visit(f)
	}
	if !h.decided {
		s.open[b.ProducerID] = append(s.open[b.ProducerID], h)
	}
	s.queue = append(s.queue, h)
	s.held += len(f.Key) + len(f.Value)
	return s.deliver(s.held > maxHeld)
}

// deliver visits the committed records up to the first one whose transaction has not ended; with overtake, those behind it too.
func (s *Reader) deliver(overtake bool) error {
	left := s.queue[:0]
	for i, h := range s.queue {
		if !h.decided {
			left = append(left, h)
			if !overtake {
				left = append(left, s.queue[i+1:]...)
				break
			}
			continue
		}
		s.held -= len(h.Key) + len(h.Value)
		if h.committed {
			if err := s.Visit(h.Record); err != nil {
				return err
			}
		}
	}
	clear(s.queue[len(left):])
	s.queue = left
	return nil
}

// readMarker ends a transaction: its records are delivered or dropped. Type 1 is a commit, 0 an abort (KIP-98).
func (s *Reader) readMarker(b *protocol.ControlBatch) error {
	s.next = max(s.next, b.BaseOffset+1)
	if b.BaseOffset <= s.last {
		s.reach(b.BaseOffset)
	}
	r, err := b.ReadControlRecord()
	if err != nil {
		return fmt.Errorf("decode a transaction marker at offset %d: %w", b.BaseOffset, err)
	}
	for _, h := range s.open[b.ProducerID] {
		h.decided, h.committed = true, r.Type == 1
	}
	delete(s.open, b.ProducerID)
	return s.deliver(s.held > maxHeld)
}

// copyRecord copies a record; the value of one that is not wanted is left out.
func (s *Reader) copyRecord(r *protocol.Record) (f Record, wanted bool, err error) {
	f = Record{Offset: r.Offset, Time: r.Time, Headers: make(map[string]string, len(r.Headers)), Order: make([]string, len(r.Headers))}
	for i, h := range r.Headers {
		f.Headers[h.Key], f.Order[i] = string(h.Value), h.Key
	}
	for _, part := range []protocol.Bytes{r.Key, r.Value} {
		if part != nil {
			s.bytes += part.Len()
		}
	}
	if f.Key, err = readBytes(r.Key); err != nil {
		return f, false, err
	}
	wanted = s.Wanted == nil || s.Wanted(&f)
	if !wanted || s.NoValues {
		if r.Value != nil {
			r.Value.Close()
			f.Value = []byte{}
		}
		return f, wanted, nil
	}
	f.Value, err = readBytes(r.Value)
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
