package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"hash/crc32"
)

// sum is the checksum of the rows of a batch: its numbers and positions, its control records, and its changes, in this order.
type sum uint32

// add adds the values of a row, each with its type and length. SQLite returns an empty body as none.
func (s *sum) add(values ...any) {
	crc := uint32(*s)
	head := func(kind byte, n int64) {
		crc = crc32.Update(crc, castagnoli, binary.LittleEndian.AppendUint64([]byte{kind}, uint64(n)))
	}
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			head('i', v)
		case int:
			head('i', int64(v))
		case string:
			head('t', int64(len(v)))
			crc = crc32.Update(crc, castagnoli, []byte(v))
		case []byte:
			head('b', int64(len(v)))
			crc = crc32.Update(crc, castagnoli, v)
		default:
			head('b', 0)
		}
	}
	*s = sum(crc)
}

// sumOf sums the rows of a batch as the file has them.
func (r *Reader) sumOf(ctx context.Context, batch int64) (s sum, err error) {
	for _, query := range []string{
		`select id, slot, epoch, seq, changes, positions from log_batches where id = ?`,
		`select n, record from log_controls where batch = ? order by n`,
		`select id, object, stream, op, version, time, gap, back, body, before from log_changes where id > ?1
			and id <= ?1 + (select changes from log_batches where id = ?1) order by id`,
	} {
		if err == nil {
			err = each(ctx, r.db, query, []any{batch}, func(rows *sql.Rows) error {
				columns, err := rows.Columns()
				if err != nil {
					return err
				}
				row, targets := make([]any, len(columns)), make([]any, len(columns))
				for i := range row {
					targets[i] = &row[i]
				}
				err = rows.Scan(targets...)
				s.add(row...)
				return err
			})
		}
	}
	return s, err
}
