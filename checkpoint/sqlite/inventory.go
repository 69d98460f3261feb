package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
)

func (s *Store) Bodies(ctx context.Context, stream change.StreamID, keys []string,
	visit func(key string, body checkpoint.Body) error) error {
	const query = `select i.key, b.base, i.delta from json_each($1) k cross join inventory i left join bases b on b.id = i.id
		where i.stream = (select id from streams where cluster = $2 and name = $3) and i.key = k.value and i.delta is not null`
	err := s.Bound()
	slices.Sort(keys)
	list, _ := json.Marshal(keys) // can't fail: strings
	if err == nil && len(keys) > 0 {
		var key string
		var base, delta sql.RawBytes // valid until the next row
		err = querier{s.db}.Rows(ctx, query, []any{string(list), s.Cluster(), stream}, []any{&key, &base, &delta}, func() error {
			return visit(key, tables.Stored(base, delta))
		})
	}
	return s.file.Fail("read bodies of stream "+string(stream), err)
}
