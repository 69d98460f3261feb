package postgres

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/internal/pgdb"
)

// sum is the checksum of a batch, of each column of its rows. Values are in Postgres' binary format, each after its length.
type sum []uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed selects the columns in the order of the parameters of write_batch.
var summed = []string{
	`select positions from kubecdc_log.batches where (cluster, slot, epoch, seq, written) = ($1, $2, $3, $4, $5)`,
	`select time, op, api_version, api_group, kind, resource, namespace, name, uid, resource_version, inferred, gap, stream, before, after,
		happened, happened_from, managers, fields_changed from kubecdc_log.changes
		where (cluster, slot, epoch, batch, written) = ($1, $2, $3, $4, $5) order by n`,
	`select time, type, stream, record from kubecdc_log.control where (cluster, slot, epoch, batch, written) = ($1, $2, $3, $4, $5) order by n`,
}

// sumOf sums the parameters of write_batch.
func sumOf(params []pgdb.Param) int64 {
	var s sum
	for _, p := range params {
		switch table, _, _ := strings.Cut(p.Name, "_"); {
		case p.Name == "in_positions":
			s = append(s, add(0, p.Value))
		case (table == "change" || table == "control") && p.Name != "change_last":
			s = append(s, crc32.Checksum(p.Elements(), castagnoli))
		}
	}
	return s.total()
}

// sumOf sums the rows of a batch as the tables have them.
func (r *Reader) sumOf(ctx context.Context, slot int, b number, written time.Time) (int64, error) {
	var all sum
	for _, query := range summed {
		rows, err := r.db.Query(ctx, query, pgx.QueryResultFormats{pgx.BinaryFormatCode},
			pgdb.Escape(r.cluster), slot, b.epoch, int64(b.seq), written)
		if err != nil {
			return 0, err
		}
		columns := make(sum, len(rows.FieldDescriptions()))
		for rows.Next() {
			for i, v := range rows.RawValues() {
				columns[i] = add(columns[i], v)
			}
		}
		if all = append(all, columns...); rows.Err() != nil {
			return 0, rows.Err()
		}
	}
	return all.total(), nil
}

// add adds a value to the checksum of a column. A null has a length of -1.
func add(crc uint32, value []byte) uint32 {
	length := int32(len(value))
	if value == nil {
		length = -1
	}
	return crc32.Update(crc32.Update(crc, castagnoli, binary.BigEndian.AppendUint32(nil, uint32(length))), castagnoli, value)
}

func (s sum) total() int64 {
	var all []byte
	for _, crc := range s {
		all = binary.BigEndian.AppendUint32(all, crc)
	}
	return int64(crc32.Checksum(all, castagnoli))
}
