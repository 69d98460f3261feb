package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// pageSize is how many objects Inventory holds at a time, about 150 bytes each.
const pageSize = 5000

// Inventory reads page by page: there is one connection only, and the visitor may want it.
func (s *Store) Inventory(ctx context.Context, stream change.StreamID, visit func(checkpoint.Object) error) error {
	page := make([]checkpoint.Object, 0, 100)
	for after := ""; ; after = page[len(page)-1].Key {
		var err error
		if page, err = s.inventoryPage(ctx, stream, after, page[:0]); err != nil {
			return s.fail("read the inventory of stream "+string(stream), err)
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
	const look = `select key, uid, resource_version from inventory
		where stream = (select id from streams where cluster = ? and name = ?) and key > ? order by key limit ?`
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, look, s.cluster.Load(), stream, after, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o checkpoint.Object
		if err := rows.Scan(&o.Key, &o.UID, &o.ResourceVersion); err != nil {
			return nil, err
		}
		page = append(page, o)
	}
	return page, rows.Err()
}

// Bodies reads the bodies of the keys by one query.
func (s *Store) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	if len(keys) == 0 {
		return nil
	}
	return s.fail("read bodies of stream "+string(stream), s.bodies(ctx, stream, keys, visit))
}

func (s *Store) bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	const look = `select i.key, b.base, i.delta from json_each(?) k cross join inventory i left join bases b on b.id = i.id
		where i.stream = (select id from streams where cluster = ? and name = ?) and i.key = k.value and i.delta is not null`
	if err := s.bound(); err != nil {
		return err
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, look, string(list), s.cluster.Load(), stream)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var base, delta sql.RawBytes // valid until the next row
		if err := rows.Scan(&key, &base, &delta); err != nil {
			return err
		}
		if err := visit(key, stored(base, delta)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stored is a body as the tables have it.
func stored(base, delta []byte) checkpoint.Body {
	if len(delta) == 0 {
		delta = nil
	}
	return checkpoint.Body{Base: base, Delta: delta}
}
