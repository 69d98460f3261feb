// Package delta makes and applies deltas: the differences of a text from an earlier one, its base. It knows nothing of JSON.
//
// A delta is the number of its format, the length of the text, the text's CRC32C, and steps. A step is a literal, and what
// follows it in the base: how many bytes to skip there, and how many to copy. Steps go forward in the base, so a text is never
// longer than its base and its delta together. All numbers except the checksum are varints.
package delta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

const format = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Make returns a delta from base to text, in newly allocated memory. It returns nil if that takes more than limit bytes.
func Make(base, text []byte, limit int) []byte {
	var buffer [1024]byte // does not escape: most deltas are shorter
	d := binary.AppendUvarint(append(buffer[:0], format), uint64(len(text)))
	d = binary.LittleEndian.AppendUint32(d, crc32.Checksum(text, castagnoli))
	m := maker{base: base}
	defer m.done()
	for len(text) > 0 {
		literal, skip, length := m.next(text)
		if len(d)+literal > limit {
			return nil
		}
		d = append(binary.AppendUvarint(d, uint64(literal)), text[:literal]...)
		if text = text[literal:]; len(text) > 0 {
			d = binary.AppendUvarint(binary.AppendUvarint(d, uint64(skip)), uint64(length))
			text = text[length:]
			m.place += skip + length
		}
	}
	if len(d) > limit {
		return nil
	}
	return append(make([]byte, 0, len(d)), d...)
}

// maker finds the steps. place is the offset in the base after the last step.
type maker struct {
	base  []byte
	place int
	index *index // the base's index, or nil if none was needed yet
}

func (m *maker) done() {
	if m.index != nil {
		indexes.Put(m.index)
	}
}

// A copy of fewer bytes takes about as much space as the bytes.
const minCopy = 8

// next returns the next step: the length of the literal, how much of the base to skip then, and how much to copy. It always
// copies something, unless all of the text is literal.
func (m *maker) next(text []byte) (literal, skip, length int) {
	base := m.base[m.place:]
	if i := inPlace(base, text); i >= 0 {
		return i, i, CommonPrefix(base[i:], text[i:])
	}
	if literal, skip, length = replaced(base, text); length > 0 {
		return literal, skip, length
	}
	if literal, skip, length = m.shifted(text); length > 0 {
		return literal, skip, length
	}
	n := commonSuffix(base, text)
	return len(text) - n, len(base) - n, n
}

// inPlace returns the first offset from which base and text are equal again, or -1 if they are not equal again soon. Most values
// retain their length. It searches further if the rest of both has the same length.
func inPlace(base, text []byte) int {
	const near, far, long = 64, 512, 32
	most := near
	if len(base) == len(text) {
		most = far
	}
	most = min(most, len(base)-minCopy+1, len(text)-minCopy+1)
	for i := 0; i < most; {
		differ := binary.LittleEndian.Uint64(base[i:]) ^ binary.LittleEndian.Uint64(text[i:])
		if differ == 0 && (i < near || CommonPrefix(base[i:], text[i:]) >= long) {
			return i
		}
		i += max(1, (bits.Len64(differ)+7)/8) // the same part begins after the last byte that differs
	}
	return -1
}

// replaced finds where base and text are the same again after the next quote, if the bytes before that end differently in both.
// Then a value was replaced. Its literal is found without an index.
func replaced(base, text []byte) (literal, skip, length int) {
	const far, long = 4096, 32
	literal, skip = bytes.IndexByte(text[:min(far, len(text))], '"'), bytes.IndexByte(base[:min(far, len(base))], '"')
	if literal < 0 || skip < 0 || commonSuffix(base[:skip], text[:literal]) >= minCopy {
		return 0, 0, 0
	}
	if length = CommonPrefix(base[skip:], text[literal:]); length < long {
		length = 0
	}
	return literal, skip, length
}

// shifted searches the base for pieces of the text. Its steps get longer the longer it finds none. JSON repeats itself, so a
// short match may be in another place. Then it searches a little further for a longer one.
func (m *maker) shifted(text []byte) (literal, skip, length int) {
	const far, further, long = 2048, 64, 32
	if m.index == nil {
		m.index = indexes.Get().(*index)
		clear(m.index.heads[:])
		m.index.end = 0
	}
	m.index.grow(m.base, m.place)
	for i, end := 0, min(far, len(text)-minCopy+1); i < end && length < long; i++ {
		if i%indexStep == 0 {
			// The index has one piece for each indexStep bytes, so leaving out a part of a step might leave out every piece.
			if i += i / 256 * indexStep; i >= end {
				break
			}
		}
		found := m.index.find(m.base, m.place, binary.LittleEndian.Uint64(text[i:]))
		if found < 0 {
			continue
		}
		back := 0
		for back < min(i, found-m.place) && m.base[found-back-1] == text[i-back-1] {
			back++
		}
		if n := back + CommonPrefix(m.base[found:], text[i:]); n > max(length, 2*minCopy-1) {
			literal, skip, length = i-back, found-back-m.place, n
			end = min(end, i+further)
		}
	}
	return literal, skip, length
}

// CommonPrefix returns the number of bytes with which both texts begin.
func CommonPrefix(a, b []byte) (n int) {
	const block = 64
	for len(a)-n >= block && len(b)-n >= block && string(a[n:n+block]) == string(b[n:n+block]) {
		n += block
	}
	for ; len(a)-n >= 8 && len(b)-n >= 8; n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// Len returns the length of the text, or 0 if the delta is damaged.
func Len(delta []byte) int {
	n, _, _, err := head(delta)
	if err != nil {
		return 0
	}
	return n
}

var errDamaged = errors.New("it is damaged")

func head(delta []byte) (length int, sum uint32, steps []byte, err error) {
	if len(delta) > 0 && delta[0] != format {
		return 0, 0, nil, fmt.Errorf("its format %d is not of this version", delta[0])
	}
	if len(delta) == 0 {
		return 0, 0, nil, errDamaged
	}
	n, size := binary.Uvarint(delta[1:])
	if steps = delta[1+max(size, 0):]; size <= 0 || n > 1<<40 || len(steps) < crc32.Size {
		return 0, 0, nil, errDamaged
	}
	return int(n), binary.LittleEndian.Uint32(steps), steps[crc32.Size:], nil
}

var errBase = errors.New("it was made for another base")

// Apply returns the text that a delta makes from its base. It uses dst if its capacity suffices, and allocates otherwise. If the
// delta is damaged, or was made for another base, it returns an error.
func Apply(dst, base, delta []byte) ([]byte, error) {
	length, sum, steps, err := head(delta)
	if err != nil {
		return nil, err
	}
	if length > len(base)+len(steps) {
		return nil, errDamaged
	}
	text := dst[:0]
	if cap(text) < length {
		text = make([]byte, 0, length)
	}
	r := reader{steps: steps}
	for len(text) < length {
		text = append(text, r.literal(length-len(text))...)
		if len(text) < length {
			skip := r.number(len(base))
			n := r.number(min(len(base)-skip, length-len(text)))
			r.damaged = r.damaged || n == 0
			text, base = append(text, base[skip:skip+n]...), base[skip+n:]
		}
		if r.damaged {
			return nil, errDamaged
		}
	}
	if len(r.steps) > 0 {
		return nil, errDamaged
	}
	if crc32.Checksum(text, castagnoli) != sum {
		return nil, errBase
	}
	return text, nil
}

// reader reads steps. After a step that is impossible, it is damaged.
type reader struct {
	steps   []byte
	damaged bool
}

func (r *reader) number(most int) int {
	n, size := binary.Uvarint(r.steps)
	if size <= 0 || n > uint64(most) {
		r.damaged = true
		return 0
	}
	r.steps = r.steps[size:]
	return int(n)
}

func (r *reader) literal(most int) []byte {
	n := r.number(most)
	if n > len(r.steps) {
		r.damaged = true
		return nil
	}
	literal := r.steps[:n]
	r.steps = r.steps[n:]
	return literal
}
