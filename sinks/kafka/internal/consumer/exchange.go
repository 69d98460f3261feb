package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"kubecdc/internal/slab"
)

// maxAnswer bounds the records of an answer, in bytes. A broker sends more than requested only if the first record batch alone is
// larger, and then only that batch.
const maxAnswer = 32 << 20

// exchange is kafka-go's fetch request for one partition, whose answer is read as bytes. kafka-go would unpack the complete
// answer, and take a page of 64 KiB for each record batch.
type exchange struct {
	fetch.Request
	clientID string
	version  int16
}

var _ protocol.RawExchanger = (*exchange)(nil)

// answer is the needed part of a fetch response.
type answer struct {
	code          int16 // error code of the response or the partition
	highWatermark int64
	records       *slab.Slab // record batches, the last of which may be cut
	capped        bool       // there were more than maxAnswer bytes
	throttled     int        // in milliseconds, by a quota
}

// ThrottledFor implements cluster.Throttled.
func (a *answer) ThrottledFor() time.Duration { return time.Duration(a.throttled) * time.Millisecond }

// ApiKey is part of protocol.Message.
func (*answer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Required records the version that the connection has agreed on.
func (e *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	e.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads its answer.
func (e *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if e.version < 4 {
		return nil, fmt.Errorf("the broker answers fetches of version %d, as a Kafka before 0.11 does", e.version)
	}
	if err := protocol.WriteRequest(rw, e.version, 0, e.clientID, &e.Request); err != nil {
		return nil, err
	}
	r := &answerReader{from: rw, left: 4}
	r.left = r.int32()
	a := r.answer(e.version)
	if r.err == nil {
		_, r.err = io.CopyN(io.Discard, rw, int64(r.left))
	}
	return a, r.err
}

// answerReader reads the fields of a response (https://kafka.apache.org/protocol#The_Messages_Fetch). After an error it returns
// zeros.
type answerReader struct {
	from io.Reader
	left int // bytes
	err  error
}

func (r *answerReader) answer(version int16) *answer {
	a := &answer{}
	r.skip(4) // the correlation id: a connection has one request at a time
	a.throttled = r.int32()
	if version >= 7 {
		a.code = r.int16()
		r.skip(4) // the session
	}
	if a.code != 0 || r.int32() != 1 { // topics
		return a
	}
	r.skip(int(r.int16())) // its name
	if r.int32() != 1 {    // partitions
		return a
	}
	r.skip(4) // its number
	a.code, a.highWatermark = r.int16(), r.int64()
	r.skip(8) // the last stable offset
	if version >= 5 {
		r.skip(8) // the first offset
	}
	r.skip(16 * max(r.int32(), 0)) // aborted transactions
	if version >= 11 {
		r.skip(4) // the replica to read from
	}
	a.records, a.capped = r.records(r.int32())
	return a
}

func (r *answerReader) records(size int) (*slab.Slab, bool) {
	taken := min(max(size, 0), maxAnswer, r.left)
	s := slab.New(taken)
	s.Bytes = s.Bytes[:taken]
	r.read(s.Bytes)
	return s, taken < size
}

func (r *answerReader) read(b []byte) {
	if r.has(len(b)) {
		_, r.err = io.ReadFull(r.from, b)
	}
}

func (r *answerReader) skip(n int) {
	if r.has(n) {
		_, r.err = io.CopyN(io.Discard, r.from, int64(n))
	}
}

// has removes n bytes from the remaining ones, and reports whether there were n.
func (r *answerReader) has(n int) bool {
	if r.err == nil && (n < 0 || n > r.left) {
		r.err = errors.New("the answer to a fetch is malformed")
	}
	r.left -= n
	return r.err == nil
}

func (r *answerReader) int16() int16 {
	var b [2]byte
	r.read(b[:])
	return int16(binary.BigEndian.Uint16(b[:]))
}

func (r *answerReader) int32() int {
	var b [4]byte
	r.read(b[:])
	return int(int32(binary.BigEndian.Uint32(b[:])))
}

func (r *answerReader) int64() int64 {
	var b [8]byte
	r.read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]))
}
