package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// pageSize is how many objects Inventory holds at a time, about 150 bytes each.
const pageSize = 5000

// Inventory reads page by page, and holds no connection and no snapshot while it visits: the visitor may take as
// long as a list from the API server takes, and may commit meanwhile.
func (s *Store) Inventory(ctx context.Context, stream change.StreamID, visit func(checkpoint.Object) error) error {
	if err := s.bound(); err != nil {
		return s.db.Fail("read the inventory of stream "+string(stream), err)
	}
	page := make([]checkpoint.Object, 0, 100)
	for after := ""; ; after = page[len(page)-1].Key {
		var err error
		if page, err = s.inventoryPage(ctx, stream, after, page[:0]); err != nil {
			return s.db.Fail("read the inventory of stream "+string(stream), err)
		}
		for _, o := range page {
			if err := visit(o); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// No key is empty, so every key comes after "".
func (s *Store) inventoryPage(
	ctx context.Context, stream change.StreamID, after string, page []checkpoint.Object,
) ([]checkpoint.Object, error) {
	const look = `select key, uid, resource_version from kubecdc.inventory_page($1, $2, $3, $4)` // see the migrations
	rows, err := s.db.Query(ctx, look, s.cluster.Load(), stream, pgdb.Escape(after), pageSize)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows(page, rows, func(row pgx.CollectableRow) (o checkpoint.Object, err error) {
		err = row.Scan(pgdb.Unescaped(&o.Key), pgdb.Unescaped(&o.UID), &o.ResourceVersion)
		return o, err
	})
}

// Bodies reads the bodies of the keys by one query.
func (s *Store) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	if len(keys) == 0 {
		return nil
	}
	return s.db.Fail("read bodies of stream "+string(stream), s.bodies(ctx, stream, keys, visit))
}

func (s *Store) bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	const look = `select key, body, delta from kubecdc.inventory
		where stream = (select id from kubecdc.streams where cluster = $1 and name = $2) and key = any ($3)
		and (body is not null or delta is not null)`
	if err := s.bound(); err != nil {
		return err
	}
	rows, err := s.db.Query(ctx, look, s.cluster.Load(), stream, pgdb.EscapeAll(keys))
	if err != nil {
		return err
	}
	var key string
	var base, delta pgtype.DriverBytes // shared with the connection: valid until the next row
	_, err = pgx.ForEachRow(rows, []any{pgdb.Unescaped(&key), &base, &delta}, func() error {
		return visit(key, checkpoint.Body{Base: base, Delta: delta})
	})
	return err
}
