package postgres

import (
	"encoding/binary"
	"time"

	"kubecdc/checkpoint/internal/pack"
)

// array is a one-dimensional array parameter in Postgres's binary format (array_recv): the number of dimensions,
// whether it holds nulls, the type of the elements, length and lower bound; then each element after its length.
type array struct {
	b []byte
	n int
}

const arrayHeader = 20

func (a *array) reset(element uint32) {
	a.n = 0
	a.b = append(a.b[:0], make([]byte, arrayHeader)...)
	binary.BigEndian.PutUint32(a.b[8:], element)
}

// bytes completes the header. An array without elements has no dimension.
func (a *array) bytes() []byte {
	if a.n == 0 {
		return a.b[:12]
	}
	binary.BigEndian.PutUint32(a.b[0:], 1)
	binary.BigEndian.PutUint32(a.b[4:], 1) // may hold nulls
	binary.BigEndian.PutUint32(a.b[12:], uint32(a.n))
	binary.BigEndian.PutUint32(a.b[16:], 1)
	return a.b
}

func (a *array) int32(v int32) {
	a.n++
	a.b = appendInt32(appendInt32(a.b, 4), v)
}

func (a *array) text(v string) {
	a.n++
	a.b = append(appendInt32(a.b, int32(len(v))), v...)
}

// postgresEpoch: timestamptz counts microseconds from here.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (a *array) time(v time.Time) {
	a.n++
	a.b = appendInt64(appendInt32(a.b, 8), v.UnixMicro()-postgresEpoch.UnixMicro())
}

// packed compresses body in place, behind a length that is filled in afterwards; nil is a null.
func (a *array) packed(body []byte) {
	a.n++
	if body == nil {
		a.b = appendInt32(a.b, -1)
		return
	}
	start := len(a.b)
	a.b = pack.Append(appendInt32(a.b, 0), body)
	binary.BigEndian.PutUint32(a.b[start:], uint32(len(a.b)-start-4))
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendJSONB: the binary format of jsonb is its text behind a version number.
func appendJSONB(b, json []byte) []byte { return append(append(b, 1), json...) }
