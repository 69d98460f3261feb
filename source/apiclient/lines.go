package apiclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"kubecdc/internal/rawjson"
	"kubecdc/internal/slab"
)

const (
	smallestLines = 4 << 10 // most of a few hundred watches are quiet
	largestLines  = 32 << 10
)

// lines reads the lines of a watch. It reads into slabs and returns slices of them, so a line needs no copy. A line is valid as
// long as its slab is held.
type lines struct {
	from  io.Reader
	slab  *slab.Slab
	start int   // where the incomplete line starts
	seen  int   // up to here the incomplete line has no newline
	reads int   // into this slab
	err   error // the error of the last read
	long  int64 // bytes of the line that next returned, if it is longer than rawjson.LargestValue, else 0
}

func newLines(from io.Reader) *lines { return &lines{from: from, slab: slab.New(smallestLines)} }

// next returns a line without its newline. io.EOF is an end between two lines, io.ErrUnexpectedEOF an end inside a line. If a
// line is too long, it returns the beginning.
func (l *lines) next() ([]byte, error) {
	for l.long = 0; ; {
		if n := bytes.IndexByte(l.slab.Bytes[l.seen:], '\n'); n >= 0 {
			line := l.slab.Bytes[l.start : l.seen+n : l.seen+n]
			l.start = l.seen + n + 1
			l.seen = l.start
			return line, nil
		}
		l.seen = len(l.slab.Bytes)
		if l.err != nil {
			return nil, l.ended()
		}
		if l.seen-l.start > rawjson.LargestValue {
			return l.passLong()
		}
		l.read()
	}
}

// longestLine bounds a line whose rest is skipped. A longer line is taken for endless.
const longestLine = 1 << 30

// passLong passes the rest of a line, and returns its beginning.
func (l *lines) passLong() ([]byte, error) {
	line, rest := l.slab.Bytes[l.start:], slab.New(largestLines)
	l.long = int64(len(line))
	for {
		b := rest.Bytes[:cap(rest.Bytes)]
		n, err := l.from.Read(b)
		if end := bytes.IndexByte(b[:n], '\n'); end >= 0 {
			l.long += int64(end)
			rest.Bytes, l.err = b[:n], err
			l.slab, l.start, l.seen, l.reads = rest, end+1, end+1, 0 // the line's own is left to the garbage collector
			return line, nil
		}
		if l.long += int64(n); l.long > longestLine {
			err = fmt.Errorf("a line of a watch has more than %d bytes: %w", longestLine, rawjson.ErrMalformed)
		}
		if err != nil {
			l.err = err
			return nil, l.ended()
		}
	}
}

func (l *lines) ended() error {
	if errors.Is(l.err, io.EOF) && len(bytes.TrimSpace(l.slab.Bytes[l.start:])) > 0 {
		return io.ErrUnexpectedEOF
	}
	return l.err
}

func (l *lines) read() {
	if b := l.slab.Bytes; cap(b)-len(b) <= cap(b)/8 {
		l.renew()
	}
	b := l.slab.Bytes
	n, err := l.from.Read(b[len(b):cap(b)])
	l.slab.Bytes, l.err = b[:len(b)+n], err
	l.reads++
}

// shrink drops a slab that a burst or a large object has enlarged, if all of its lines were returned.
func (l *lines) shrink() {
	if l.start == len(l.slab.Bytes) && cap(l.slab.Bytes) > smallestLines {
		l.slab.Release()
		l.slab, l.start, l.seen, l.reads = slab.New(smallestLines), 0, 0, 0
	}
}

// renew begins a slab with the incomplete line. The slab is larger than the last slab if a few reads have filled the last one, or
// if the line needs the room. It is smaller if many reads have filled the last one.
func (l *lines) renew() {
	size := cap(l.slab.Bytes)
	switch {
	case l.reads > 16:
		size /= 2
	case 0 < l.reads && l.reads < 8:
		size *= 2
	}
	rest, old := l.slab.Bytes[l.start:], l.slab
	l.slab = slab.New(max(min(size, largestLines), smallestLines, min(2*len(rest), rawjson.LargestValue+largestLines)))
	l.slab.Bytes = append(l.slab.Bytes, rest...)
	old.Release()
	l.start, l.seen, l.reads = 0, len(rest), 0
}
