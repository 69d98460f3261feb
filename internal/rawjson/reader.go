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
	// longestValue bounds a value that is passed without being held. A longer one is taken for endless.
	longestValue = 1 << 30
	// keptBytes is how much is kept of the beginning of a value that is too large.
	keptBytes = 64 << 10
)

// TooLargeError reports a value that is too large to be held. It was passed.
type TooLargeError struct{ Bytes int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d bytes, and %d are the most", e.Bytes, LargestValue)
}

// ErrEndless reports a value that was not passed to its end.
var ErrEndless = fmt.Errorf("a value of more than %d bytes", longestValue)

// Reader reads an object or array that is too large to be held in memory, as it comes off the wire.
type Reader struct {
	from  io.Reader
	b     []byte // what was read; up to i it was passed
	i     int
	gone  int64 // bytes that were passed and are not in b any more
	depth int   // how many objects and arrays the reader is inside of
	last  int   // bytes of the last value that Scan passed
	err   error // of the last read
}

// NewReader returns a reader at the start of a stream.
func NewReader(from io.Reader) *Reader { return &Reader{from: from} }

// Object reads past the next object. It calls member with each name. member must read past the member's value.
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

// Array reads past the next array. It calls element in front of each element. element must read past that element.
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

// Value passes the next value and returns its bytes, which are valid until the next call. The value must be part of an object
// or array: at the end of the stream a number could go on. With a *TooLargeError the bytes are the value's beginning.
func (r *Reader) Value() ([]byte, error) { return r.value(func(*Scanner) {}) }

// value lets scan look at a value that is too large, as far as it is held.
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

// passLarge passes a value without checking that it is JSON.
func (r *Reader) passLarge(scan func(*Scanner)) ([]byte, error) {
	scan(&Scanner{b: r.b, i: r.i, depth: r.depth})
	kept, p, began := bytes.Clone(r.b[r.i:r.i+keptBytes]), Passer{}, r.gone+int64(r.i)
	for {
		n, done := p.Pass(r.b[r.i:])
		r.i += n
		passed := r.gone + int64(r.i) - began
		switch {
		case done:
			r.gone, r.b, r.i = r.gone+int64(r.i), bytes.Clone(r.b[r.i:]), 0 // without the room for the value
			return kept, &TooLargeError{passed}
		case passed > longestValue:
			return nil, ErrEndless
		}
		if err := r.read(); err != nil {
			return nil, err
		}
	}
}

// Scan passes the next value as Value does, and lets scan look at it meanwhile, so that each byte is looked at once, unless the
// value is cut: then scan is called again. scan must pass one value. ok is false if it failed, although the value is JSON. Of a value
// that is too large scan sees the beginning.
func (r *Reader) Scan(scan func(*Scanner)) (value []byte, ok bool, err error) {
	if _, err := r.Peek(); err != nil {
		return nil, false, err
	}
	if len(r.b)-r.i < r.last+r.last/4 && r.err == nil {
		_ = r.read() // the next value is about as large; an error is met again after it
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

// read fills the buffer, and doubles it first if what was not passed takes more than half of it. It fills it whole, since a
// value that is cut is scanned again.
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
