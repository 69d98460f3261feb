package pgdb

import (
	"encoding/binary"
	"time"
)

// Array is a one-dimensional array parameter, built in place in Postgres's binary format (array_recv): the number
// of dimensions, whether it holds nulls, the type of the elements, length and lower bound; then each element after
// its length. It is made to be used again: a large batch then allocates nothing.
type Array struct {
	b []byte
	n int
}

const arrayHeader = 20

// Reset empties the array; element is the OID of its elements' type.
func (a *Array) Reset(element uint32) {
	a.n = 0
	a.b = append(a.b[:0], make([]byte, arrayHeader)...)
	binary.BigEndian.PutUint32(a.b[8:], element)
}

// Param completes the header and gives the parameter, valid until the next Reset. An array without elements has no
// dimension.
func (a *Array) Param() []byte {
	if a.n == 0 {
		return a.b[:12]
	}
	binary.BigEndian.PutUint32(a.b[0:], 1)
	binary.BigEndian.PutUint32(a.b[4:], 1) // may hold nulls
	binary.BigEndian.PutUint32(a.b[12:], uint32(a.n))
	binary.BigEndian.PutUint32(a.b[16:], 1)
	return a.b
}

func (a *Array) Null() {
	a.n++
	a.b = AppendInt32(a.b, -1)
}

func (a *Array) Int32(v int32) {
	a.n++
	a.b = AppendInt32(AppendInt32(a.b, 4), v)
}

func (a *Array) Bool(v bool) {
	a.n++
	a.b = append(AppendInt32(a.b, 1), Bool(v)...)
}

func (a *Array) Text(v string) {
	a.n++
	a.b = append(AppendInt32(a.b, int32(len(v))), v...)
}

// Bytes is for json and bytea; nil is a null.
func (a *Array) Bytes(v []byte) {
	if v == nil {
		a.Null()
		return
	}
	a.n++
	a.b = append(AppendInt32(a.b, int32(len(v))), v...)
}

// Append adds the element that write appends to the buffer that it is given.
func (a *Array) Append(write func(dst []byte) []byte) {
	a.n++
	start := len(a.b)
	a.b = write(AppendInt32(a.b, 0))
	binary.BigEndian.PutUint32(a.b[start:], uint32(len(a.b)-start-4))
}

// epoch: timestamptz counts microseconds from here.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (a *Array) Time(v time.Time) {
	a.n++
	a.b = AppendInt64(AppendInt32(a.b, 8), v.UnixMicro()-epoch)
}

// AppendInt32 appends an int4.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends an int8.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// Bool is a bool.
func Bool(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// AppendJSONB appends a jsonb: its text behind a version number.
func AppendJSONB(b, json []byte) []byte { return append(append(b, 1), json...) }
