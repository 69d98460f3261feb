package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

func (s *Store) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	const query = `select key, body, delta from kubecdc.inventory
		where stream = (select id from kubecdc.streams where cluster = $1 and name = $2) and key = any ($3)
		and (body is not null or delta is not null)`
	err := s.Bound()
	if err == nil && len(keys) > 0 {
		var key string
		var base, delta pgtype.DriverBytes // memory of the connection, valid until the next row
		err = pgdb.Querier{DB: s.db}.Rows(ctx, query, []any{s.Cluster(), stream, pgdb.EscapeAll(keys)},
			[]any{&key, &base, &delta}, func() error {
				return visit(key, checkpoint.Body{Base: base, Delta: delta})
			})
	}
	return s.db.Fail("read bodies of stream "+string(stream), err)
}
