// Package recordbatch encodes and decodes Kafka's record batches (message format 2, KIP-98). kafka-go's writer can't set the id,
// epoch and sequence number of an idempotent or transactional producer. Its reader unpacks a complete answer, with a page of 64
// KiB for each record batch. The package knows nothing of brokers, nor of the content of records.
package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"kubecdc/internal/slab"
)

// These are offsets in a record batch, magic 2 (https://kafka.apache.org/documentation/#recordbatch). They count from the start
// of the buffer, which begins with the 4-byte size of the record set, as in a produce request.
const (
	atBaseOffset      = 4  // int64
	atLength          = 12 // int32, of what follows
	atLeaderEpoch     = 16 // int32
	atMagic           = 20 // int8
	atCRC             = 21 // uint32, CRC-32C of what follows
	atAttributes      = 25 // int16
	atLastOffsetDelta = 27 // int32
	atFirstTimestamp  = 31 // int64
	atMaxTimestamp    = 39 // int64
	atProducerID      = 47 // int64
	atProducerEpoch   = 55 // int16
	atBaseSequence    = 57 // int32
	atCount           = 61 // int32
	atRecords         = 65

	// SizePrefix is the length of the size before the batch in the slab of Seal.
	SizePrefix = 4

	codecBits        = 7
	transactionalBit = 1 << 4
	controlBit       = 1 << 5
	deleteHorizonBit = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one record to append.
type Record struct {
	Time      int64 // in Unix milliseconds
	Key       []byte
	Value     [][]byte // parts, which are joined
	Tombstone bool     // the value is null
	Headers   Headers
}

// ValueLen returns the length of the joined value.
func (r *Record) ValueLen() (n int) {
	for _, part := range r.Value {
		n += len(part)
	}
	return n
}

// Encoder builds one record batch at a time. One serves all partitions that a goroutine writes to.
type Encoder struct {
	codec     Codec // nil: no compression
	plain     []byte
	packed    []byte // memory for compression
	count     int
	firstTime int64
	maxTime   int64
}

// NewEncoder returns an encoder. A nil codec compresses nothing.
func NewEncoder(c Codec) *Encoder { return &Encoder{codec: c} }

// Producer is the fields of a batch about its producer.
type Producer struct {
	ID            int64
	Epoch         int16
	Sequence      int32 // sequence of the batch's first record
	Transactional bool
}

// Reset begins a batch.
func (e *Encoder) Reset() {
	if cap(e.plain) < atRecords {
		e.plain = make([]byte, atRecords, 64<<10)
	}
	e.plain = e.plain[:atRecords]
	e.count = 0
}

// Size returns the size of the batch before compression.
func (e *Encoder) Size() int { return len(e.plain) - SizePrefix }

// Count returns the number of records in the batch.
func (e *Encoder) Count() int { return e.count }

// Append encodes a record. It retains no reference to it.
func (e *Encoder) Append(r *Record) {
	if e.count == 0 {
		e.firstTime, e.maxTime = r.Time, r.Time
	}
	e.maxTime = max(e.maxTime, r.Time)
	delta, valueLen := r.Time-e.firstTime, -1
	if !r.Tombstone {
		valueLen = r.ValueLen()
	}
	length := 1 + varintLen(delta) + varintLen(int64(e.count)) + varintLen(int64(len(r.Key))) + len(r.Key) +
		varintLen(int64(valueLen)) + max(valueLen, 0) + varintLen(int64(r.Headers.Count)) + len(r.Headers.Bytes)
	b := binary.AppendVarint(e.plain, int64(length))
	b = append(b, 0) // attributes: none are defined
	b = binary.AppendVarint(b, delta)
	b = binary.AppendVarint(b, int64(e.count))
	b = binary.AppendVarint(b, int64(len(r.Key)))
	b = append(b, r.Key...)
	b = binary.AppendVarint(b, int64(valueLen))
	if !r.Tombstone {
		for _, part := range r.Value {
			b = append(b, part...)
		}
	}
	b = binary.AppendVarint(b, int64(r.Headers.Count))
	e.plain = append(b, r.Headers.Bytes...)
	e.count++
}

// swapped is the size from which an uncompressed batch is passed on in the encoder's own buffer, which is then replaced.
const swapped = 64 << 10

// Seal compresses the records and fills in the header. If compression does not make them smaller, they remain uncompressed. A
// sealed batch is copied, unless it is large and not compressed. A codec needs room for the worst case, and hundreds of
// partitions may each hold a small batch until it is sent.
func (e *Encoder) Seal(m Producer) (*slab.Slab, error) {
	b, attributes := e.plain, int16(0)
	if e.codec != nil {
		packed, err := e.codec.appendTo(append(e.packed[:0], e.plain[:atRecords]...), e.plain[atRecords:])
		if err != nil {
			return nil, err
		}
		if e.packed = packed; len(packed) < len(b) {
			b, attributes = packed, e.codec.bits()
		}
	}
	s := slab.New(len(b))
	if attributes == 0 && len(b) >= swapped {
		s.Bytes, e.plain = e.plain, s.Bytes
	} else {
		s.Bytes = append(s.Bytes, b...)
	}
	if m.Transactional {
		attributes |= transactionalBit
	}
	e.putHeader(s.Bytes, m, attributes)
	return s, nil
}

func (e *Encoder) putHeader(b []byte, m Producer, attributes int16) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(len(b)-SizePrefix))
	be.PutUint64(b[atBaseOffset:], 0)
	be.PutUint32(b[atLength:], uint32(len(b)-atLeaderEpoch))
	be.PutUint32(b[atLeaderEpoch:], ^uint32(0))
	b[atMagic] = 2
	be.PutUint16(b[atAttributes:], uint16(attributes))
	be.PutUint32(b[atLastOffsetDelta:], uint32(e.count-1))
	be.PutUint64(b[atFirstTimestamp:], uint64(e.firstTime))
	be.PutUint64(b[atMaxTimestamp:], uint64(e.maxTime))
	be.PutUint64(b[atProducerID:], uint64(m.ID))
	be.PutUint16(b[atProducerEpoch:], uint16(m.Epoch))
	be.PutUint32(b[atBaseSequence:], uint32(m.Sequence))
	be.PutUint32(b[atCount:], uint32(e.count))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

// Headers are the encoded headers of a record.
type Headers struct {
	Bytes []byte
	Count int
}

// AddHeader adds a header.
func AddHeader[T ~string | ~[]byte](h *Headers, name string, value T) {
	h.Bytes = append(binary.AppendVarint(h.Bytes, int64(len(name))), name...)
	h.Bytes = append(binary.AppendVarint(h.Bytes, int64(len(value))), value...)
	h.Count++
}

// AddSomeHeader adds a header, unless its value is empty.
func AddSomeHeader[T ~string | ~[]byte](h *Headers, name string, value T) {
	if len(value) > 0 {
		AddHeader(h, name, value)
	}
}

// Shared returns the same headers, to which records may append more.
func (h Headers) Shared() Headers { return Headers{slices.Clip(h.Bytes), h.Count} }

// varintLen is the length of v as a zigzag varint.
func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
