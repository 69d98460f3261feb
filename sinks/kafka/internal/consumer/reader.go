// Package consumer reads a range of one partition, and returns only committed records. kafka-go's Reader does not, since a client
// itself must filter the records of aborted transactions (KIP-98, "Consumer" and "Control messages",
// https://kafka.apache.org/documentation/#controlbatch).
//
// Unlike a consumer with isolation.level=read_committed it also fetches uncommitted records, and applies the transaction markers
// in the partition. read_committed fetches up to the last stable offset, which waits for the open transactions of all producers
// on the partition. Here a record waits only for the end of its own transaction. The package knows no consumer groups, and
// nothing of the content of records.
package consumer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/recordbatch"
)

// ErrGone says that records are not in the log any more.
var ErrGone = errors.New("no longer in the log")

// Record is a record that was read.
type Record struct {
	Offset        int64
	Key, Value    []byte // Value is nil in a tombstone
	Headers       map[string]string
	Order         []string // the names of the headers, in their order
	Time          time.Time
	Transactional bool
	Data          any // for the caller: Range.Fetched may set it
}

// Range is the part of one partition to read.
type Range struct {
	Topic     string
	Partition int32
	First     int64
	// Committed means that all records are known to be committed, so no marker is awaited.
	Committed bool
	// Wanted selects records by key and headers. These bytes belong to the record only if it is selected. nil selects all.
	Wanted func(*Record) bool
	// NoValues leaves values empty, and values of tombstones nil.
	NoValues bool
	// Complete, if not nil, gets the times of each record batch that lacks no record. Its records are not unpacked then, and not
	// visited.
	Complete func(first, latest time.Time)
	// Fetched, if not nil, gets each wanted record, whether or not its transaction commits.
	Fetched func(*Record) error
	// Visit gets each wanted record that was committed, in the order of the offsets. Records after an open transaction are held
	// until it ends. If more than maxHeld bytes are held, or at the end of the range, they are visited first. The transaction's
	// records then follow when it commits.
	Visit func(Record) error
	// Marker, if not nil, gets the offset of each marker that ends a transaction.
	Marker func(offset int64)
	// MaxBytes bounds the size of a fetch. 0 means 1 MiB.
	MaxBytes int32
}

// Reader reads a range. It holds a record of a transaction in memory until the marker that ends the transaction. A record without
// a marker in the range is not committed.
type Reader struct {
	Range
	client *cluster.Client

	next      int64
	last      int64             // up to and including
	queue     []*held           // wanted records from the first one whose transaction has not ended
	held      int               // bytes in the queue
	open      map[int64][]*held // records whose transaction has not ended, by producer id
	empty     bool              // the answer had no records
	records   int64
	noHoleTo  int64 // no record is missing between hole and this offset
	hole      [2]int64
	fetchSize int32
	decoder   recordbatch.Decoder
	err       error // ends the read
}

// held is a record that waits for the end of its transaction, or of an earlier one.
type held struct {
	Record
	decided, committed bool
}

// size returns about how many bytes a held record takes. The map of its headers takes more than most control records.
func (h *held) size() int { return len(h.Key) + len(h.Value) + 1<<10 }

// maxHeld is how many bytes are held after a transaction that does not end.
const maxHeld = 8 << 20

// New returns a reader at the start of its range.
func New(c *cluster.Client, r Range) *Reader {
	r.MaxBytes = cmp.Or(r.MaxBytes, maxFetch)
	return &Reader{Range: r, client: c, next: r.First, noHoleTo: r.First, hole: [2]int64{r.First, r.First},
		open:      map[int64][]*held{},
		fetchSize: min(firstFetch, r.MaxBytes)}
}

// Records returns the number of records read so far, wanted or not.
func (s *Reader) Records() int64 { return s.records }

// Hole returns the first offset of the last hole in what was read, where records were removed, and the offset after it. Without a
// hole both are the start of the range.
func (s *Reader) Hole() (first, next int64) {
	if s.done() && s.noHoleTo <= s.last {
		return s.noHoleTo, s.last + 1
	}
	return s.hole[0], s.hole[1]
}

// reach records the next offsets that are not in a hole.
func (s *Reader) reach(first, last int64) {
	if first > s.noHoleTo {
		s.hole = [2]int64{s.noHoleTo, first}
	}
	s.noHoleTo = max(s.noHoleTo, last+1)
}

// Open reports whether a wanted record was read whose transaction has not yet ended.
func (s *Reader) Open() bool { return len(s.open) > 0 }

// ReadTo reads up to and including an offset. A later call continues there.
func (s *Reader) ReadTo(ctx context.Context, last int64) error {
	for {
		if more, err := s.Fetch(ctx, last); err != nil || !more {
			return err
		}
	}
}

// Fetch reads the answer to one fetch, up to and including an offset. It reports whether there was anything left to read.
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
func (s *Reader) readAnswer(a *answer) error {
	rest := a.records.Bytes
	if s.empty = len(rest) == 0; s.empty {
		if s.empty = a.highWatermark <= s.last; !s.empty {
			s.next = s.last + 1 // compaction has removed the rest
		}
		return nil
	}
	for len(rest) > 0 && !s.done() {
		b, after, err := recordbatch.Next(rest)
		switch {
		case errors.Is(err, recordbatch.ErrCut) && a.capped && b.Last >= s.next:
			s.skipTooLarge(&recordbatch.TooLargeError{Offset: b.Base,
				What: fmt.Sprintf("a record batch above %d bytes", maxAnswer)})
			s.next = b.Last + 1
			return nil
		case errors.Is(err, recordbatch.ErrCut) && len(rest) < len(a.records.Bytes):
			rest = nil
			continue
		case err == nil:
			err = s.readBatch(&b)
		}
		if err != nil {
			return err
		}
		rest = after
	}
	return nil
}

// skipTooLarge skips a record that is too large, and logs it. The exporter writes none: another program has written it.
func (s *Reader) skipTooLarge(e *recordbatch.TooLargeError) {
	s.client.Logger.Error("passed by what is too large to be read, and not the exporter's own", "topic", s.Topic,
		"partition", s.Partition, "offset", e.Offset, "reason", e.What)
}

func (s *Reader) readBatch(b *recordbatch.Batch) error {
	if s.passComplete(b) {
		return nil
	}
	from := s.next // a broker sends a batch from its start, whichever offset was requested
	s.next = max(s.next, b.Base+1)
	if err := s.decoder.Open(b); err != nil {
		return err
	}
	defer s.decoder.Close()
	for {
		r, err := s.decoder.Next()
		switch large, ok := errors.AsType[*recordbatch.TooLargeError](err); {
		case errors.Is(err, io.EOF):
			s.next = max(s.next, min(b.Last, s.last)+1) // compaction may have removed the last records
			return nil
		case ok:
			if large.Offset >= from && large.Offset <= s.last {
				s.skipTooLarge(large)
				s.reach(large.Offset, large.Offset)
			}
			s.next = max(s.next, large.Offset+1)
			continue
		case err != nil:
			return fmt.Errorf("decode a record at offset %d: %w", s.next, err)
		case r.Offset < from || r.Offset > s.last:
			continue
		}
		s.next = r.Offset + 1
		s.reach(r.Offset, r.Offset)
		if b.Control() {
			if s.Marker != nil {
				s.Marker(r.Offset)
			}
			return s.endTransaction(b.ProducerID, r.Key)
		}
		s.records++
		f, wanted := s.asRecord(r)
		if !wanted {
			continue
		}
		f.Transactional = b.Transactional()
		if err := s.record(b.ProducerID, f); err != nil {
			return err
		}
	}
}

// passComplete passes a record batch that lacks no record, if its times suffice.
func (s *Reader) passComplete(b *recordbatch.Batch) bool {
	first, latest, ok := b.Times()
	if s.Complete == nil || !ok || b.Control() || b.Base < s.next || b.Last > s.last {
		return false
	}
	s.reach(b.Base, b.Last)
	s.records += b.Last - b.Base + 1
	s.next = b.Last + 1
	s.Complete(first, latest)
	return true
}

// record delivers a record, or holds it until its transaction ends.
func (s *Reader) record(producer int64, f Record) error {
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
		s.open[producer] = append(s.open[producer], h)
	}
	s.queue = append(s.queue, h)
	s.held += h.size()
	return s.deliver(s.held > maxHeld)
}

// deliver visits the committed records up to the first one whose transaction has not ended. With overtake it also visits later
// ones.
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
		s.held -= h.size()
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

// endTransaction delivers or drops the records of a transaction. The key of a marker is a version, then a type: 1 is a commit, 0
// an abort (KIP-98).
func (s *Reader) endTransaction(producer int64, key []byte) error {
	if len(key) < 4 {
		return fmt.Errorf("decode a transaction marker before offset %d: %w", s.next, recordbatch.ErrMalformed)
	}
	for _, h := range s.open[producer] {
		h.decided, h.committed = true, binary.BigEndian.Uint16(key[2:]) == 1
	}
	delete(s.open, producer)
	return s.deliver(s.held > maxHeld)
}

// asRecord returns a decoded record. If it is wanted, it has the same memory.
func (s *Reader) asRecord(r *recordbatch.Received) (f Record, wanted bool) {
	f = Record{Offset: r.Offset, Time: time.UnixMilli(r.Time), Key: r.Key,
		Headers: make(map[string]string, len(r.Headers)), Order: make([]string, len(r.Headers))}
	for i, h := range r.Headers {
		f.Headers[h.Name], f.Order[i] = string(h.Value), h.Name
	}
	if s.NoValues && r.Value != nil {
		r.Value = r.Value[:0]
	}
	if wanted = s.Wanted == nil || s.Wanted(&f); wanted {
		f.Value = r.Value
		s.decoder.Keep()
	}
	return f, wanted
}
