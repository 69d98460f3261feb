package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"

	"kubecdc/internal/delta"
)

// A full body is stored as the number of its format, the CRC32C of the body, and the body packed by S2. S2 may use the dictionary
// of the body's resource, which saves a third.
const (
	alone          = 1
	withDictionary = 2
)

const headBytes = 1 + crc32.Size

// codec packs the bodies of one resource. The zero codec has no dictionary.
type codec struct{ dictionary *s2.Dict }

func codecOf(dictionary []byte) codec { return codec{s2.MakeDict(dictionary, nil)} }

// pack packs a body into newly allocated memory. It uses scratch, which grows if necessary.
func (c codec) pack(body []byte, scratch *[]byte) []byte {
	if need := headBytes + s2.MaxEncodedLen(len(body)); cap(*scratch) < need {
		*scratch = make([]byte, need)
	}
	packed := (*scratch)[:cap(*scratch)]
	packed[0] = alone
	binary.LittleEndian.PutUint32(packed[1:], crc32.Checksum(body, castagnoli))
	if c.dictionary == nil {
		return bytes.Clone(packed[:headBytes+len(s2.Encode(packed[headBytes:], body))])
	}
	packed[0] = withDictionary
	return bytes.Clone(packed[:headBytes+len(c.dictionary.Encode(packed[headBytes:], body))])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged says that a row has other contents than were written.
var ErrDamaged = errors.New("a row of the log is damaged")

// unpack unpacks a body into dst if its capacity suffices, and otherwise into newly allocated memory.
func (c codec) unpack(dst, packed []byte) (body []byte, err error) {
	switch {
	case len(packed) > headBytes && packed[0] == alone:
		body, err = s2.Decode(dst, packed[headBytes:])
	case len(packed) > headBytes && packed[0] == withDictionary && c.dictionary != nil:
		body, err = c.dictionary.Decode(dst, packed[headBytes:])
	default:
		return nil, fmt.Errorf("%w: it has no format that this version knows", ErrDamaged)
	}
	if err == nil && crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(packed[1:]) {
		err = errors.New("its checksum is another one")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return body, nil
}

// stored is a body as the log has it: a full body, or a full body with a delta.
type stored struct {
	base   int64 // the change that has the full body, or 0 if there is no body
	packed []byte
	delta  []byte // nil if the body is the full one
}

// storedOf returns the body of a row. body is the row's column, and full is the column of the change that is back ids before it.
func storedOf(id int64, back sql.NullInt64, body, full []byte) stored {
	switch {
	case !back.Valid:
		return stored{}
	case back.Int64 == 0:
		return stored{id, body, nil}
	}
	return stored{id - back.Int64, full, body}
}

// bodies returns the full body, and the body. It asks memory for memory of a capacity, and allocates if it gets less.
func (c codec) bodies(s stored, memory func(n int) []byte) (full, body []byte, err error) {
	if s.base == 0 {
		return nil, nil, nil
	}
	n, _ := s2.DecodedLen(s.packed[min(headBytes, len(s.packed)):])
	if full, err = c.unpack(memory(n), s.packed); err != nil || s.delta == nil {
		return full, full, err
	}
	body, err = applied(memory(delta.Len(s.delta)), full, s.delta)
	return full, body, err
}

func applied(dst, full, column []byte) ([]byte, error) {
	body, err := delta.Apply(dst, full, column)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return body, nil
}

// ownMemory is for callers that have no memory to reuse.
func ownMemory(int) []byte { return nil }

// A dictionary has what a resource's objects have in common: the names of their members. It outlives the history, so it contains
// no values of an object.
const smallestDictionary, largestDictionary = 64, s2.MaxDictSize

// dictionaryOf makes a dictionary of an object: its JSON without the strings and digits that are values. It returns nil if that
// is too short.
func dictionaryOf(object []byte) []byte {
	names := make([]byte, 0, len(object)/2)
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case c == '"':
			end := i + 1
			for end < len(object) && object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(object))
			if end < len(object) && object[end] == ':' {
				names = append(names, object[i:end]...)
			} else {
				names = append(names, `""`...)
			}
			i = end - 1
		case c < '0' || c > '9':
			names = append(names, c)
		}
	}
	if len(names) < smallestDictionary {
		return nil
	}
	return names[:min(len(names), largestDictionary)]
}

// queries is a database or a transaction.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// lastBody joins the last change of an object o, and the change that has its full body.
const lastBody = `join log_changes c on c.id = (select id from log_changes where object = o.id order by id desc limit 1)
	left join log_changes w on c.back > 0 and w.id = c.id - c.back `
