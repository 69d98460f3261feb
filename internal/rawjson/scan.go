// Package rawjson reads JSON without decoding it. It finds members and elements, checks that all of the text is JSON, and
// returns the bytes as they came. A Scanner reads text in memory and each byte once. A Reader reads a large object or array off
// the wire. Both accept exactly what encoding/json accepts, and fuzz tests compare them. The package knows nothing of Kubernetes.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/bits"
)

// ErrMalformed reports text that is not JSON, or not the JSON that was expected. It quotes nothing of the text.
var ErrMalformed = errors.New("malformed JSON")

// maxDepth is how deep values may be nested. encoding/json has the same limit.
const maxDepth = 10000

// What a function returns in place of an index.
const (
	malformed = -1 // the text is not JSON, whatever follows
	cut       = -2 // the text ends too early
)

// Scanner walks JSON from front to back. Once it meets malformed text, i is negative and it finds nothing more.
type Scanner struct {
	b     []byte
	i     int
	depth int
}

// New returns a scanner at the start of raw.
func New(raw []byte) Scanner { return Scanner{b: raw} }

// Offset returns how many bytes the scanner has read.
func (s *Scanner) Offset() int { return s.i }

// Since returns the bytes read since the offset, without leading space. It returns nil once the text was malformed.
func (s *Scanner) Since(offset int) []byte {
	if !s.OK() {
		return nil
	}
	return s.b[SkipSpace(s.b, offset):s.i]
}

// OK reports whether everything read so far is JSON.
func (s *Scanner) OK() bool { return s.i >= 0 }

// AtObject reports whether an object comes next.
func (s *Scanner) AtObject() bool { return s.isNext('{') }

// AtArray reports whether an array comes next.
func (s *Scanner) AtArray() bool { return s.isNext('[') }

func (s *Scanner) isNext(c byte) bool {
	s.space()
	return s.OK() && s.i < len(s.b) && s.b[s.i] == c
}

// AtEnd reports whether nothing but space is left.
func (s *Scanner) AtEnd() bool {
	s.space()
	return s.i == len(s.b)
}

// First enters the object that comes next and returns the name of its first member, raw and without quotes. The member's
// value comes next. The caller must read it, with Skip or First, before it calls Next. At the end of the object, and in
// malformed text, more is false.
func (s *Scanner) First() (name []byte, more bool) {
	if !s.enter('{') {
		return nil, false
	}
	return s.name()
}

// Next returns the name of the object's next member.
func (s *Scanner) Next() (name []byte, more bool) {
	if !s.another('}') {
		return nil, false
	}
	s.space()
	return s.name()
}

// FirstElement enters the array that comes next and reports whether it has an element. The element comes next, like a member's
// value after First.
func (s *Scanner) FirstElement() (more bool) { return s.enter('[') }

// NextElement reports whether the array has another element, which then comes next.
func (s *Scanner) NextElement() (more bool) { return s.another(']') }

// enter moves into the object or array that begins with this byte, and out again if it is empty. It fails if the value is nested
// too deep.
func (s *Scanner) enter(open byte) (more bool) {
	if s.depth++; !s.isNext(open) || s.depth > maxDepth {
		s.Fail()
		return false
	}
	s.i++
	return !s.leave(open + 2) // } or ]
}

// another skips the comma before another member or element, or the end.
func (s *Scanner) another(end byte) (more bool) {
	if s.isNext(',') {
		s.i++
		return true
	}
	if !s.leave(end) {
		s.Fail()
	}
	return false
}

// leave skips the end of an object or array, if that comes next.
func (s *Scanner) leave(end byte) bool {
	if !s.isNext(end) {
		return false
	}
	s.i++
	s.depth--
	return true
}

func (s *Scanner) name() (name []byte, more bool) {
	start := s.i
	end := skipString(s.b, start)
	if end < 0 {
		return s.Fail()
	}
	colon := SkipSpace(s.b, end)
	if colon >= len(s.b) || s.b[colon] != ':' {
		return s.Fail()
	}
	s.i = colon + 1
	return s.b[start+1 : end-1], true
}

// Fail makes the scanner treat the text as malformed.
func (s *Scanner) Fail() (name []byte, more bool) {
	s.i = malformed
	return nil, false
}

func (s *Scanner) space() {
	if s.OK() {
		s.i = SkipSpace(s.b, s.i)
	}
}

// Skip skips the next value and returns its bytes, or nil if the value is malformed.
func (s *Scanner) Skip() []byte {
	s.space()
	start := s.i
	if !s.OK() {
		return nil
	}
	if s.i = skipValue(s.b, start, s.depth); s.i < 0 {
		return nil
	}
	return s.b[start:s.i]
}

// SkipSpace returns the index of the first byte from i on that is not JSON's white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the JSON value that starts at i, or malformed or cut. A bit stores the kind of each array and
// object around i, the innermost lowest. For deeper nesting than there are bits it calls itself.
func skipValue(b []byte, i, depth int) int {
	const levels = 64
	inside, kinds := 0, uint64(0) // a bit is 1 for an object
value:
	if i = SkipSpace(b, i); i >= len(b) {
		return cut
	}
	switch c := b[i]; c {
	case '"':
		if i = skipString(b, i); i < 0 {
			return i
		}
	case '{', '[':
		if depth+inside >= maxDepth {
			return malformed
		}
		if inside == levels {
			if i = skipValue(b, i, depth+levels); i < 0 {
				return i
			}
			break
		}
		if i = SkipSpace(b, i+1); i >= len(b) {
			return cut
		}
		if b[i] == c+2 { // } or ]: it is empty
			i++
			break
		}
		inside++
		if kinds <<= 1; c == '[' {
			goto value
		}
		kinds |= 1
		goto name
	default:
		if i = skipScalar(b, i); i < 0 {
			return i
		}
	}
after: // a value
	if inside == 0 {
		return i
	}
	if i = SkipSpace(b, i); i >= len(b) {
		return cut
	}
	switch c, object := b[i], kinds&1 == 1; {
	case c == ',' && object:
		i = SkipSpace(b, i+1)
		goto name
	case c == ',':
		i++
		goto value
	case c == '}' && object || c == ']' && !object:
		i++
		inside--
		kinds >>= 1
		goto after
	}
	return malformed
name:
	if i = skipName(b, i); i < 0 {
		return i
	}
	goto value
}

// skipName returns the index after the name at i and its colon, or malformed or cut.
func skipName(b []byte, i int) int {
	if i = skipString(b, i); i < 0 {
		return i
	}
	if i = SkipSpace(b, i); i >= len(b) {
		return cut
	}
	if b[i] != ':' {
		return malformed
	}
	return i + 1
}

// skipScalar returns the index after the literal or number at i, or malformed or cut.
func skipScalar(b []byte, i int) int {
	switch b[i] {
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipLiteral(b []byte, i int, literal string) int {
	switch rest := b[i:min(len(b), i+len(literal))]; {
	case string(rest) == literal:
		return i + len(literal)
	case string(rest) == literal[:len(rest)]:
		return cut
	}
	return malformed
}

// skipString returns the index after the string that starts at i, or malformed or cut. It searches sixteen bytes at a time for
// one that ends the string, starts an escape, or is not allowed in it.
func skipString(b []byte, i int) int {
	if i >= len(b) {
		return cut
	}
	if b[i] != '"' {
		return malformed
	}
	i++
	for i+16 <= len(b) {
		w := b[i : i+16]
		special, first := specialBytes(binary.LittleEndian.Uint64(w)), i
		if special == 0 {
			special, first = specialBytes(binary.LittleEndian.Uint64(w[8:])), i+8
		}
		if i += 16; special == 0 {
			continue
		}
		i = first + bits.TrailingZeros64(special)/8
		if b[i] == '"' {
			return i + 1
		}
		if i = skipEscape(b, i); i < 0 {
			return i
		}
	}
	for i < len(b) {
		switch {
		case b[i] == '"':
			return i + 1
		case b[i] == '\\' || b[i] < ' ':
			if i = skipEscape(b, i); i < 0 {
				return i
			}
		default:
			i++
		}
	}
	return cut
}

// specialBytes marks the first byte of w that is a quote, a backslash or a control character, by its high bit. Bytes after it may
// be marked by mistake. (x-0x01…)&^x&0x80… finds a zero byte, and (x-n…)&^x&0x80… a byte below n (Warren, Hacker's Delight, 6-1).
// Flipping the bit 0x02 moves the quote to just above the control characters, so that one search finds both.
func specialBytes(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low, backslash := w^ones*0x02, w^ones*'\\'
	return ((low-ones*0x21)&^low | (backslash-ones)&^backslash) & highs
}

// skipEscape returns the index after the escape at i, or malformed or cut. A control character in its place is malformed.
func skipEscape(b []byte, i int) int {
	if b[i] != '\\' {
		return malformed
	}
	if i+1 >= len(b) {
		return cut
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 > len(b) {
			return cut
		}
		for _, c := range b[i+2 : i+6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return malformed
			}
		}
		return i + 6
	}
	return malformed
}

// skipNumber returns the index after the number at i, or malformed or cut: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = skipDigits(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits returns the index after the digits at i, or malformed if there is none, or cut.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	switch {
	case i > start:
		return i
	case i == len(b):
		return cut
	}
	return malformed
}

// PlainText returns the inside of a raw JSON string, or nil for any other value. ok is false if the string has escapes.
func PlainText(raw []byte) (text []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, true
	}
	raw = raw[1 : len(raw)-1]
	return raw, bytes.IndexByte(raw, '\\') < 0
}

// Name returns the raw name of a member, as First and Next return it, as a Go string.
func Name(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	name, _ := Text(append(append([]byte{'"'}, raw...), '"'))
	return name
}

// Text returns a raw JSON string as a Go string. ok is false for any other value.
func Text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// Member returns the raw value of one member of an object, or nil if the object lacks it.
func Member(raw []byte, name string) []byte {
	s := New(raw)
	for found, more := s.First(); more; found, more = s.Next() {
		if value := s.Skip(); string(found) == name {
			return value
		}
	}
	return nil
}
