package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Cursor walks JSON that was checked before, and so takes less time than a Scanner. The results for malformed text are undefined.
// A caller that has entered an object or array must leave it when it has no more members or elements.
type Cursor struct {
	b []byte
	i int
}

// NewCursor returns a cursor before a value.
func NewCursor(value []byte) Cursor { return Cursor{value, SkipSpace(value, 0)} }

// AtObject reports whether an object comes next.
func (c *Cursor) AtObject() bool { return c.i < len(c.b) && c.b[c.i] == '{' }

// AtArray reports whether an array comes next.
func (c *Cursor) AtArray() bool { return c.i < len(c.b) && c.b[c.i] == '[' }

// Enter moves before the first member or element of the value that comes next.
func (c *Cursor) Enter() { c.i = min(c.i+1, len(c.b)) }

// Leave moves after the end of an object or array, which comes next.
func (c *Cursor) Leave() { c.i = min(c.i+1, len(c.b)) }

// Element moves to the next element of an array. The caller must skip it.
func (c *Cursor) Element() (more bool) {
	c.i = SkipSpace(c.b, c.i)
	if c.i < len(c.b) && c.b[c.i] == ',' {
		c.i = SkipSpace(c.b, c.i+1)
	}
	return c.i < len(c.b) && c.b[c.i] != ']' && c.b[c.i] != '}'
}

// Member moves to the value of an object's next member, and returns the raw name. The caller must skip the value.
func (c *Cursor) Member() (name []byte, more bool) {
	if !c.Element() || c.b[c.i] != '"' {
		return nil, false
	}
	end := stringEnd(c.b, c.i)
	name = c.b[c.i+1 : max(end-1, c.i+1)]
	c.i = SkipSpace(c.b, end)
	if c.i < len(c.b) && c.b[c.i] == ':' {
		c.i = SkipSpace(c.b, c.i+1)
	}
	return name, true
}

// Rest returns all bytes after the cursor.
func (c *Cursor) Rest() []byte { return c.b[c.i:] }

// Advance skips n bytes and returns them.
func (c *Cursor) Advance(n int) []byte {
	start := c.i
	c.i = min(start+n, len(c.b))
	return c.b[start:c.i]
}

// Skip skips a value and returns it.
func (c *Cursor) Skip() []byte {
	start := c.i
	c.i = valueEnd(c.b, start)
	return c.b[start:c.i]
}

// Pass skips the value that comes next if it has these bytes, and reports that.
func (c *Cursor) Pass(value []byte) bool {
	end := c.i + len(value)
	if !bytes.HasPrefix(c.b[c.i:], value) || end < len(c.b) && !ends[c.b[end]] {
		return false
	}
	c.i = end
	return true
}

// PassTo skips these bytes if they come next, before a value, and reports that.
func (c *Cursor) PassTo(before []byte) bool {
	if !bytes.HasPrefix(c.b[c.i:], before) {
		return false
	}
	c.i += len(before)
	return true
}

// Since returns the bytes from start to the cursor.
func (c *Cursor) Since(start *Cursor) []byte { return c.b[start.i:c.i] }

// ends has the bytes that can follow a value.
var ends = [256]bool{',': true, '}': true, ']': true, ' ': true, '\n': true, '\t': true, '\r': true}

// nests is what a byte outside of a string adds to the depth.
var nests = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1}

// valueEnd returns the index after the value at i.
func valueEnd(b []byte, i int) int {
	switch {
	case i >= len(b):
		return len(b)
	case b[i] == '"':
		return stringEnd(b, i)
	case nests[b[i]] == 0:
		for i < len(b) && !ends[b[i]] {
			i++
		}
		return i
	}
	for depth := 0; i < len(b); {
		c := b[i]
		if c == '"' {
			i = stringEnd(b, i)
			continue
		}
		i++
		if depth += int(nests[c]); depth == 0 {
			return i
		}
	}
	return len(b)
}

// stringEnd returns the index after the string at i. It searches sixteen bytes at a time.
func stringEnd(b []byte, i int) int {
	i++
	for i+16 <= len(b) {
		w := b[i : i+16]
		stop := stops(binary.LittleEndian.Uint64(w))
		if stop == 0 {
			i += 8
			if stop = stops(binary.LittleEndian.Uint64(w[8:])); stop == 0 {
				i += 8
				continue
			}
		}
		if i += bits.TrailingZeros64(stop) / 8; b[i] == '"' {
			return i + 1
		}
		i += 2
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(b)
}

// stops marks the first quote or backslash of w by its high bit. Bytes after it may be marked by mistake, as in specialBytes.
func stops(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}
