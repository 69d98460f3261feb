package source

import (
	"bytes"
	"errors"
	"io"
)

const (
	smallestLines = 8 << 10 // most watches of a cluster are quiet
	largestLines  = 64 << 10
)

// lines reads a body line by line. It reads into slabs that are never written again, and hands the lines out where they
// lie: a line needs no copy, is the caller's to keep, and keeps its slab with it.
type lines struct {
	body  io.Reader
	slab  []byte // what was read
	start int    // of the line that is not complete yet
	seen  int    // up to here it has no end
	reads int    // into this slab
}

// next gives a line without its newline. io.EOF is an end between two lines, io.ErrUnexpectedEOF one within a line.
func (l *lines) next() ([]byte, error) {
	for {
		if n := bytes.IndexByte(l.slab[l.seen:], '\n'); n >= 0 {
			line := l.slab[l.start : l.seen+n : l.seen+n]
			l.start = l.seen + n + 1
			l.seen = l.start
			return line, nil
		}
		l.seen = len(l.slab)
		if err := l.read(); err != nil {
			return nil, l.ended(err)
		}
	}
}

func (l *lines) ended(err error) error {
	if errors.Is(err, io.EOF) && len(bytes.TrimSpace(l.slab[l.start:])) > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (l *lines) read() error {
	if cap(l.slab)-len(l.slab) < cap(l.slab)/8 || cap(l.slab) == 0 {
		l.renew()
	}
	n, err := l.body.Read(l.slab[len(l.slab):cap(l.slab)])
	l.slab = l.slab[:len(l.slab)+n]
	l.reads++
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// renew begins a slab with the line that is not complete: larger where few reads filled the last one, or where the line
// needs it, smaller where many did.
func (l *lines) renew() {
	size := max(cap(l.slab), smallestLines)
	switch {
	case l.reads > 16:
		size /= 2
	case 0 < l.reads && l.reads < 8:
		size *= 2
	}
	rest := l.slab[l.start:]
	size = max(min(size, largestLines), smallestLines, 2*len(rest))
	l.slab = append(make([]byte, 0, size), rest...)
	l.start, l.seen, l.reads = 0, len(rest), 0
}
