package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"kubecdc/change"
)

// The record batch, magic 2 (https://kafka.apache.org/documentation/#recordbatch). Offsets are from the start of
// our buffer, which begins with the 4-byte size of the record set, as a produce request wants it.
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

	sizePrefix = 4 // is not part of the batch

	transactionalBit = 1 << 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one record to append. Its headers are encoded already.
type record struct {
	time        int64 // Unix ms
	key         []byte
	value       change.Value
	tombstone   bool // the value is null
	headers     []byte
	headerCount int
}

// batchEncoder builds one record batch at a time. One serves all partitions of a log.
type batchEncoder struct {
	codec     codec // nil: no compression
	plain     []byte
	count     int
	firstTime int64
	maxTime   int64
}

// batchMeta is what a batch says of its producer.
type batchMeta struct {
	producerID    int64
	producerEpoch int16
	sequence      int32
	transactional bool
}

func (e *batchEncoder) reset() {
	if cap(e.plain) < atRecords {
		e.plain = make([]byte, atRecords, 64<<10)
	}
	e.plain = e.plain[:atRecords]
	e.count = 0
}

// size is that of the batch before compression.
func (e *batchEncoder) size() int { return len(e.plain) - sizePrefix }

func (e *batchEncoder) append(r *record) {
	if e.count == 0 {
		e.firstTime, e.maxTime = r.time, r.time
	}
	e.maxTime = max(e.maxTime, r.time)
	delta, valueLen := r.time-e.firstTime, -1
	if !r.tombstone {
		valueLen = r.value.Len()
	}
	length := 1 + varintLen(delta) + varintLen(int64(e.count)) + varintLen(int64(len(r.key))) + len(r.key) +
		varintLen(int64(valueLen)) + max(valueLen, 0) + varintLen(int64(r.headerCount)) + len(r.headers)
	b := binary.AppendVarint(e.plain, int64(length))
	b = append(b, 0) // attributes: none are defined
	b = binary.AppendVarint(b, delta)
	b = binary.AppendVarint(b, int64(e.count))
	b = binary.AppendVarint(b, int64(len(r.key)))
	b = append(b, r.key...)
	b = binary.AppendVarint(b, int64(valueLen))
	if !r.tombstone {
		b = r.value.AppendTo(b)
	}
	b = binary.AppendVarint(b, int64(r.headerCount))
	e.plain = append(b, r.headers...)
	e.count++
}

// seal compresses the records into the buffer, where that makes them smaller, and fills in the header. Where it
// does not, the encoder gives away its own buffer and goes on with the other: nothing is copied.
func (e *batchEncoder) seal(buffer []byte, m batchMeta) ([]byte, error) {
	b, attributes := buffer, int16(0)
	if e.codec != nil {
		packed, err := e.codec.appendTo(append(buffer[:0], e.plain[:atRecords]...), e.plain[atRecords:])
		if err != nil {
			return nil, err
		}
		b, attributes = packed, e.codec.bits()
	}
	if e.codec == nil || len(b) >= len(e.plain) {
		b, e.plain, attributes = e.plain, b, 0
	}
	if m.transactional {
		attributes |= transactionalBit
	}
	e.putHeader(b, m, attributes)
	return b, nil
}

func (e *batchEncoder) putHeader(b []byte, m batchMeta, attributes int16) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(len(b)-sizePrefix))
	be.PutUint64(b[atBaseOffset:], 0)
	be.PutUint32(b[atLength:], uint32(len(b)-atLeaderEpoch))
	be.PutUint32(b[atLeaderEpoch:], ^uint32(0))
	b[atMagic] = 2
	be.PutUint16(b[atAttributes:], uint16(attributes))
	be.PutUint32(b[atLastOffsetDelta:], uint32(e.count-1))
	be.PutUint64(b[atFirstTimestamp:], uint64(e.firstTime))
	be.PutUint64(b[atMaxTimestamp:], uint64(e.maxTime))
	be.PutUint64(b[atProducerID:], uint64(m.producerID))
	be.PutUint16(b[atProducerEpoch:], uint16(m.producerEpoch))
	be.PutUint32(b[atBaseSequence:], uint32(m.sequence))
	be.PutUint32(b[atCount:], uint32(e.count))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

// appendHeader appends one record header.
func appendHeader(dst []byte, name, value string) []byte {
	dst = binary.AppendVarint(dst, int64(len(name)))
	dst = append(dst, name...)
	dst = binary.AppendVarint(dst, int64(len(value)))
	return append(dst, value...)
}

// varintLen is the length of v as a zigzag varint.
func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
