package source

import (
	"bytes"
	"errors"
	"io"
)

// lines reads the lines of a watch. Its buffer is small at first, since most watches of a cluster say little, and a
// few hundred of them add up; it grows with the length of the lines, and while reads fill it, and shrinks when rest is
// called.
type lines struct {
	from       io.Reader
	buffer     []byte
	start, end int   // what was read and not yet taken
	err        error // of the last read
}

const (
	smallBuffer = 4 << 10
	// A watch under load is read in pieces of this size. The buffer is larger only where one line is.
	largeBuffer = 32 << 10
)

func newLines(from io.Reader) *lines { return &lines{from: from, buffer: make([]byte, smallBuffer)} }

// next returns one line, without its end; the bytes are valid until the next call. A line that the end of the input
// cuts is io.ErrUnexpectedEOF.
func (l *lines) next() ([]byte, error) {
	for looked := 0; ; {
		have := l.buffer[l.start:l.end]
		if i := bytes.IndexByte(have[looked:], '\n'); i >= 0 {
			l.start += looked + i + 1
			return have[:looked+i], nil
		}
		looked = len(have)
		if l.err != nil {
			if errors.Is(l.err, io.EOF) && len(bytes.TrimSpace(have)) > 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, l.err
		}
		l.read()
	}
}

// read reads once, into a buffer that has room. A read that fills it says that there is more: the next is larger.
func (l *lines) read() {
	if l.start > 0 {
		l.end = copy(l.buffer, l.buffer[l.start:l.end])
		l.start = 0
	}
	if l.end == len(l.buffer) {
		l.resize(2 * len(l.buffer))
	}
	n, err := l.from.Read(l.buffer[l.end:])
	l.end, l.err = l.end+n, err
	if l.end == len(l.buffer) && len(l.buffer) < largeBuffer {
		l.resize(2 * len(l.buffer))
	}
}

func (l *lines) resize(size int) {
	larger := make([]byte, size)
	copy(larger, l.buffer[:l.end])
	l.buffer = larger
}

// rest gives back what a burst or a large object made of the buffer, if nothing is in it.
func (l *lines) rest() {
	if l.start == l.end && len(l.buffer) > smallBuffer {
		l.buffer, l.start, l.end = make([]byte, smallBuffer), 0, 0
	}
}
