package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// readerBytes is the size of a Reader's buffer, unless a value is larger.
const readerBytes = 32 << 10

const (
	// LargestValue bounds a value that a Reader holds.
	LargestValue = 16 << 20
	// longestValue bounds a value that is skipped without being held. A longer one is taken for endless.
	longestValue = 1 << 30
	// prefixBytes is the size of the beginning that is returned of a value that is too large.
	prefixBytes = 64 << 10
)

// TooLargeError reports a value that is too large to be held. The reader is after the value.
type TooLargeError struct{ Bytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d bytes, and %d are the most", e.Bytes, LargestValue)
}

// ErrEndless reports a value whose end was not found. The reader can't go on.
var ErrEndless = fmt.Errorf("a value of more than %d bytes", longestValue)

// Reader reads an object or array that is too large to be held in memory, as it comes off the wire.
type Reader struct {
	from  io.Reader
	b     []byte // what was read and is not yet dropped
	i     int    // index in b of the first byte that is not consumed
	gone  int64  // bytes before b
	depth int    // number of objects and arrays around the reader
	last  int    // bytes of the last value that Scan returned
	err   error  // result of the last read
}

// NewReader returns a reader at the start of a stream.
func NewReader(from io.Reader) *Reader { return &Reader{from: from} }

// Object reads the next object. It calls member with each name, and member must read the member's value.
func (r *Reader) Object(member func(name string) error) error {
	return r.each('{', '}', func() error {
		raw, err := r.Value()
		if err != nil {
			return err
		}
		name, isText := Text(raw)
		if !isText {
			return r.malformed()
		}
		if err := r.pass(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// Array reads the next array. It calls element before each element, and element must read it.
func (r *Reader) Array(element func() error) error { return r.each('[', ']', element) }

func (r *Reader) each(first, last byte, do func() error) error {
	if err := r.pass(first); err != nil {
		return err
	}
	r.depth++
	defer func() { r.depth-- }()
	c, err := r.Peek()
	if err != nil {
		return err
	}
	if c == last {
		return r.pass(last)
	}
	for {
		if err := do(); err != nil {
			return err
		}
		if c, err = r.Peek(); err != nil {
			return err
		}
		if c != ',' {
			return r.pass(last)
		}
		r.i++
	}
}

// Value reads the next value and returns its bytes, which are valid until the next call. The value must be part of an object
// or array: at the end of the stream a number could go on. With a *TooLargeError the bytes are the value's beginning.
func (r *Reader) Value() ([]byte, error) { return r.value(func(*Scanner) {}) }

// value calls scan only for a value that is too large, with the part of it that is in memory.
func (r *Reader) value(scan func(*Scanner)) ([]byte, error) {
	if _, err := r.Peek(); err != nil {
		return nil, err
	}
	for {
		end := skipValue(r.b, r.i, r.depth)
		if end == malformed {
			return nil, r.malformed()
		}
		if 0 <= end && end < len(r.b) {
			value := r.b[r.i:end]
			r.i = end
			return value, nil
		}
		if len(r.b)-r.i > LargestValue {
			return r.passLarge(scan)
		}
		if err := r.read(); err != nil {
			return nil, err
		}
	}
}

// passLarge skips a value without checking that it is JSON, and returns its beginning.
func (r *Reader) passLarge(scan func(*Scanner)) ([]byte, error) {
	scan(&Scanner{b: r.b, i: r.i, depth: r.depth})
	prefix, p, began := bytes.Clone(r.b[r.i:r.i+prefixBytes]), Passer{}, r.gone+int64(r.i)
	for {
		n, done := p.Pass(r.b[r.i:])
		r.i += n
		passed := r.gone + int64(r.i) - began
		switch {
		case done:
			r.gone, r.b, r.i = r.gone+int64(r.i), bytes.Clone(r.b[r.i:]), 0 // without the room for the value
			return prefix, &TooLargeError{passed}
		case passed > longestValue:
			return nil, ErrEndless
		}
		if err := r.read(); err != nil {
			return nil, err
		}
	}
}

// Scan reads the next value like Value, and calls scan, which must skip one value. So each byte is read once. If the buffer ends
// within the value, scan is called again. ok is false if scan failed although the value is JSON. If a value is too large, scan
// gets its beginning.
func (r *Reader) Scan(scan func(*Scanner)) (value []byte, ok bool, err error) {
	if _, err := r.Peek(); err != nil {
		return nil, false, err
	}
	if len(r.b)-r.i < r.last+r.last/4 && r.err == nil {
		_ = r.read() // the next value is probably as large, and a later read returns the error again
	}
	s := Scanner{b: r.b, i: r.i, depth: r.depth}
	if scan(&s); s.OK() && s.i < len(r.b) {
		value, r.i = r.b[r.i:s.i], s.i
		r.last = len(value)
		return value, true, nil
	}
	if value, err = r.value(scan); err != nil {
		return value, false, err
	}
	r.last = len(value)
	s = Scanner{b: value, depth: r.depth}
	scan(&s)
	return value, s.AtEnd(), nil
}

// Peek returns the byte that comes next, after space.
func (r *Reader) Peek() (byte, error) {
	for {
		if r.i = SkipSpace(r.b, r.i); r.i < len(r.b) {
			return r.b[r.i], nil
		}
		if err := r.read(); err != nil {
			return 0, err
		}
	}
}

// End returns an error unless nothing but space is left of the stream.
func (r *Reader) End() error {
	switch _, err := r.Peek(); {
	case err == nil:
		return r.malformed()
	case !errors.Is(r.err, io.EOF):
		return err
	}
	return nil
}

func (r *Reader) pass(c byte) error {
	next, err := r.Peek()
	if err != nil {
		return err
	}
	if next != c {
		return r.malformed()
	}
	r.i++
	return nil
}

func (r *Reader) malformed() error {
	return fmt.Errorf("%w in what begins at byte %d", ErrMalformed, r.gone+int64(r.i))
}

// read fills the buffer, and doubles it first if more than half of it is not yet consumed. It fills the complete buffer, because
// a value that is cut must be scanned again.
func (r *Reader) read() error {
	if errors.Is(r.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return r.err
	}
	rest, room := r.b[r.i:], r.b[:0]
	if most := LargestValue + readerBytes; len(rest) >= cap(room)/2 && cap(room) < most {
		room = make([]byte, 0, min(max(2*cap(room), readerBytes), most))
	}
	r.gone += int64(r.i)
	r.b, r.i = append(room, rest...), 0
	n, err := io.ReadFull(r.from, r.b[len(r.b):cap(r.b)])
	if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
		err = io.EOF
	}
	r.b, r.err = r.b[:len(r.b)+n], err
	return nil
}
