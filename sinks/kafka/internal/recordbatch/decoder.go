package recordbatch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"kubecdc/internal/fault"
)

const (
	// MaxRecord bounds a record in bytes. It is four times the largest object that the exporter accepts from an API server, for
	// both states and the encoding. A larger record, or compressed data that unpacks to more, is not the exporter's.
	MaxRecord = 64 << 20
	// maxHeaders bounds the headers of a record. The exporter's have a dozen.
	maxHeaders = 1000
)

var (
	// ErrCut means that a record set ends inside of a record batch.
	ErrCut = errors.New("the record batch is cut")
	// ErrMalformed means that bytes are not a record batch of message format 2, or were damaged on the way.
	ErrMalformed = errors.New("malformed record batch")
)

// TooLargeError says that a record, or the rest of its batch, was skipped, since it would take too much memory.
type TooLargeError struct {
	Offset int64  // offset of the first skipped record
	What   string // what is too large, with its size and the limit
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.What) }

// Batch is a record batch as a broker has sent it.
type Batch struct {
	Base, Last int64 // offsets
	ProducerID int64
	attributes int16
	firstTime  int64 // Unix ms
	maxTime    int64
	count      int // number of records; compaction may have removed them all
	packed     []byte
}

// Transactional reports whether the records count only if their transaction is committed.
func (b *Batch) Transactional() bool { return b.attributes&transactionalBit != 0 }

// Control reports whether the batch is the marker that ends a transaction.
func (b *Batch) Control() bool { return b.attributes&controlBit != 0 }

// Times returns the time of the first record and the latest one. ok is false if compaction has removed some record, or has put in
// place of the first time when tombstones may be removed (KIP-534).
func (b *Batch) Times() (first, latest time.Time, ok bool) {
	return time.UnixMilli(b.firstTime), time.UnixMilli(b.maxTime), int64(b.count) == b.Last-b.Base+1 &&
		b.attributes&deleteHorizonBit == 0
}

// Next removes the first batch from a record set. With ErrCut the batch has its offsets if its header is complete.
func Next(set []byte) (b Batch, rest []byte, err error) {
	if len(set) < atRecords-SizePrefix {
		return b, nil, ErrCut
	}
	be, field := binary.BigEndian, func(offset int) []byte { return set[offset-SizePrefix:] }
	if magic := field(atMagic)[0]; magic != 2 {
		return b, nil, fmt.Errorf("%w: message format %d, of a Kafka before 0.11", ErrMalformed, magic)
	}
	b = Batch{Base: int64(be.Uint64(field(atBaseOffset))), attributes: int16(be.Uint16(field(atAttributes))),
		firstTime: int64(be.Uint64(field(atFirstTimestamp))), maxTime: int64(be.Uint64(field(atMaxTimestamp))),
		ProducerID: int64(be.Uint64(field(atProducerID))),
		count:      int(int32(be.Uint32(field(atCount))))}
	b.Last = b.Base + int64(int32(be.Uint32(field(atLastOffsetDelta))))
	end := atLeaderEpoch - SizePrefix + int(be.Uint32(field(atLength)))
	switch {
	case end < atRecords-SizePrefix || b.Last < b.Base:
		return b, nil, fmt.Errorf("%w at offset %d: %d bytes up to offset %d", ErrMalformed, b.Base, end, b.Last)
	case end > len(set):
		return b, nil, ErrCut
	case crc32.Checksum(set[atAttributes-SizePrefix:end], castagnoli) != be.Uint32(field(atCRC)):
		return b, nil, fmt.Errorf("%w at offset %d: its checksum is not that of its bytes", ErrMalformed, b.Base)
	}
	b.packed = set[atRecords-SizePrefix : end]
	return b, set[end:], nil
}

// Received is a record that was read.
type Received struct {
	Offset     int64
	Time       int64  // Unix ms
	Key, Value []byte // nil: null
	Headers    []Header
}

// Header is a header of a record that was read.
type Header struct {
	Name  string
	Value []byte
}

// Decoder reads the records of one batch after another. It unpacks a batch while it reads, so memory holds one record.
type Decoder struct {
	batch *Batch
	left  int // records
	from  *bufio.Reader
	close func()
	bytes []byte // memory of the last record
	last  Received
}

// Open begins to decode a batch, and drops the rest of the one before. It fails if the batch can't be unpacked.
func (d *Decoder) Open(b *Batch) error {
	d.Close()
	unpacked, done, err := unpack(b.attributes&codecBits, b.packed)
	if err != nil {
		return fmt.Errorf("unpack the record batch at offset %d: %w", b.Base, err)
	}
	if d.from == nil {
		d.from = bufio.NewReaderSize(unpacked, 8<<10)
	}
	d.from.Reset(unpacked)
	d.batch, d.left, d.close = b, b.count, done
	return nil
}

// Close drops the rest of the batch, and the memory of the last record.
func (d *Decoder) Close() {
	if d.close != nil {
		d.close()
		d.from.Reset(nil)
	}
	*d = Decoder{from: d.from, last: Received{Headers: d.last.Headers[:0]}}
}

// Next returns the next record, or io.EOF after the last one. The record is valid until the next call, unless Keep is called.
// After a *TooLargeError the caller may go on with the next record.
func (d *Decoder) Next() (*Received, error) {
	if d.left <= 0 {
		return nil, io.EOF
	}
	d.left--
	err := d.read()
	if err == nil {
		return &d.last, nil
	}
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		large.Offset = d.last.Offset
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// Keep leaves the memory of the last record to the caller.
func (d *Decoder) Keep() { d.bytes = nil }

// read reads a record. The record begins with its length, attributes without a defined meaning, and the time and offset as
// differences (https://kafka.apache.org/documentation/#record).
func (d *Decoder) read() error {
	d.last = Received{Offset: max(d.last.Offset+1, d.batch.Base), Headers: d.last.Headers[:0]}
	length, err := binary.ReadVarint(d.from)
	if fault.Is[*TooLargeError](err) {
		d.left = 0
	}
	if err != nil {
		return err
	}
	if length < 0 {
		return ErrMalformed
	}
	if length > MaxRecord {
		begin, _ := d.from.Peek(1 + 2*binary.MaxVarintLen64)
		d.begin(&fields{rest: begin})
		if _, err := d.from.Discard(int(length)); err != nil {
			return err
		}
		return &TooLargeError{What: fmt.Sprintf("a record of %d bytes, where %d are the most", length, MaxRecord)}
	}
	if size := cap(d.bytes); size < int(length) || size > 2*int(length)+1<<10 { // the caller may retain it
		d.bytes = make([]byte, length)
	}
	d.bytes = d.bytes[:length]
	if _, err := io.ReadFull(d.from, d.bytes); err != nil {
		if fault.Is[*TooLargeError](err) {
			d.left = 0
		}
		return err
	}
	return d.parse(&fields{rest: d.bytes})
}

func (d *Decoder) begin(f *fields) {
	f.take(1)
	d.last.Time = d.batch.firstTime + f.varint()
	d.last.Offset = d.batch.Base + f.varint()
}

func (d *Decoder) parse(f *fields) error {
	d.begin(f)
	d.last.Key, d.last.Value = f.bytes(), f.bytes()
	n := f.varint()
	if n > maxHeaders {
		return &TooLargeError{What: fmt.Sprintf("a record with %d headers, where %d are the most", n, maxHeaders)}
	}
	for range n {
		d.last.Headers = append(d.last.Headers, Header{string(f.bytes()), f.bytes()})
	}
	if f.failed {
		return ErrMalformed
	}
	return nil
}

// fields reads the fields of a record.
type fields struct {
	rest   []byte
	failed bool
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	if f.failed = f.failed || n <= 0; f.failed {
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// take takes n bytes, or none if n is impossible.
func (f *fields) take(n int) []byte {
	if f.failed = f.failed || n < 0 || n > len(f.rest); f.failed {
		return nil
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken
}

// bytes reads a length and as many bytes. The length -1 is null.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n == -1 {
		return nil
	}
	return f.take(int(n))
}
