package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"

	"kubecdc/internal/delta"
)

// A whole body is the number of its format, the CRC32C of the body, and the body as S2 packs it: alone, or with the dictionary of its
// resource, which saves a third.
const (
	alone          = 1
	withDictionary = 2
)

const headBytes = 1 + crc32.Size

// codec packs the bodies of one resource. The zero codec has no dictionary.
type codec struct{ dictionary *s2.Dict }

func codecOf(dictionary []byte) codec { return codec{s2.MakeDict(dictionary, nil)} }

func (c codec) pack(body []byte) []byte {
	packed := make([]byte, headBytes+s2.MaxEncodedLen(len(body)))
	packed[0] = alone
	binary.LittleEndian.PutUint32(packed[1:], crc32.Checksum(body, castagnoli))
	if c.dictionary == nil {
		return packed[:headBytes+len(s2.Encode(packed[headBytes:], body))]
	}
	packed[0] = withDictionary
	return packed[:headBytes+len(c.dictionary.Encode(packed[headBytes:], body))]
}

var errDamaged = errors.New("a body of the log is damaged")

func (c codec) unpack(packed []byte) (body []byte, err error) {
	switch {
	case len(packed) > headBytes && packed[0] == alone:
		body, err = s2.Decode(nil, packed[headBytes:])
	case len(packed) > headBytes && packed[0] == withDictionary && c.dictionary != nil:
		body, err = c.dictionary.Decode(nil, packed[headBytes:])
	default:
		return nil, fmt.Errorf("%w: it has no format that this version knows", errDamaged)
	}
	if err == nil && crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(packed[1:]) {
		err = errors.New("its checksum is another one")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return body, nil
}

// apply makes a body of the one before it and of its column.
func (c codec) apply(before []byte, depth int64, column []byte) ([]byte, error) {
	if depth == 0 {
		return c.unpack(column)
	}
	body, err := delta.Apply(nil, before, column)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return body, nil
}

// A dictionary is what objects of a resource have in common: the names of their members. It outlives the history, so no value of an
// object is in it.
const smallestDictionary, largestDictionary = 64, s2.MaxDictSize

// dictionaryOf makes a dictionary of an object: its JSON without the strings and digits that are values; nil if that is too little.
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

// step is a body as its row has it.
type step struct {
	depth  int64
	column []byte
}

// queries is a database or a transaction.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// bodyAt makes the body of the last change of an object up to a change, which has one.
func bodyAt(ctx context.Context, db queries, c codec, object, change int64) ([]byte, error) {
	steps, err := chain(ctx, db, object, change)
	if err == nil && len(steps) == 0 {
		err = madeOfNothing(object, change)
	}
	if err != nil {
		return nil, err
	}
	return c.body(steps)
}

func madeOfNothing(object, change int64) error {
	return fmt.Errorf("%w: object %d has nothing that its body at %d is made of", errDamaged, object, change)
}

// body makes the body of a chain.
func (c codec) body(steps []step) (body []byte, err error) {
	for _, s := range steps {
		if body, err = c.apply(body, s.depth, s.column); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// chain reads what the body of the last change up to a change is made of, the whole one first; nothing if that change has none.
func chain(ctx context.Context, db queries, object, change int64) (steps []step, err error) {
	const look = `select depth, body from log_changes where object = ? and id <= ? order by id desc`
	rows, err := db.QueryContext(ctx, look, object, change)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var depth sql.NullInt64
		var s step
		if err := rows.Scan(&depth, &s.column); err != nil {
			return nil, err
		}
		if len(steps) == 0 && !depth.Valid {
			return nil, nil
		}
		if s.depth = depth.Int64; !depth.Valid || len(steps) > 0 && s.depth != steps[len(steps)-1].depth-1 {
			break
		}
		if steps = append(steps, s); s.depth == 0 {
			slices.Reverse(steps)
			return steps, nil
		}
	}
	if err := rows.Err(); err != nil || len(steps) == 0 {
		return nil, err
	}
	return nil, madeOfNothing(object, change)
}
