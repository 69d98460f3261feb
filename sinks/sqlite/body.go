package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/zstd"

	"kubecdc/internal/delta"
)

// A whole body is the number of its format, the CRC32C of the body, and the body as a zstd frame.
const whole = 1

var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
)

func packWhole(body []byte) []byte {
	packed := binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(body)/2+64), whole), crc32.Checksum(body, castagnoli))
	return encoder.EncodeAll(body, packed)
}

var errDamaged = errors.New("a body of the log is damaged")

func unpackWhole(packed []byte) ([]byte, error) {
	if len(packed) < 5 || packed[0] != whole {
		return nil, fmt.Errorf("%w: it has no format that this version knows", errDamaged)
	}
	body, err := decoder.DecodeAll(packed[5:], nil)
	if err == nil && crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(packed[1:]) {
		err = errors.New("its checksum is another one")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return body, nil
}

// apply makes a body of the one before it and of its column.
func apply(before []byte, depth int64, column []byte) ([]byte, error) {
	if depth == 0 {
		return unpackWhole(column)
	}
	body, err := delta.Apply(nil, before, column)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return body, nil
}

// step is a body as its row has it.
type step struct {
	id, depth int64
	column    []byte
}

// queries is a database or a transaction.
type queries interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// chain reads what the body of an object's change is made of, the whole one first. The change has a body.
func chain(ctx context.Context, db queries, object, change int64) (steps []step, err error) {
	const look = `select id, depth, body from log_changes where object = ? and id <= ? order by id desc`
	rows, err := db.QueryContext(ctx, look, object, change)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s step
		var depth sql.NullInt64
		if err := rows.Scan(&s.id, &depth, &s.column); err != nil {
			return nil, err
		}
		if !depth.Valid || len(steps) > 0 && depth.Int64 != steps[len(steps)-1].depth-1 {
			break
		}
		s.depth = depth.Int64
		if steps = append(steps, s); s.depth == 0 {
			slices.Reverse(steps)
			return steps, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: change %d has nothing that it is made of", errDamaged, change)
}

// unpack makes the body of a chain.
func unpack(steps []step) (body []byte, err error) {
	for _, s := range steps {
		if body, err = apply(body, s.depth, s.column); err != nil {
			return nil, err
		}
	}
	return body, nil
}
