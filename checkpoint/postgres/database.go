package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/pgdb"
)

// database implements tables.Database.
type database struct {
	pgdb.Querier
	*pgdb.DB
}

func (d database) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return d.Querier.Exec(ctx, query, args...)
}

func (d database) Begin(ctx context.Context, do func(tables.Querier) error) error {
	return pgx.BeginFunc(ctx, d.DB, func(tx pgx.Tx) error { return do(pgdb.Querier{DB: tx}) })
}

var dialect = tables.Dialect{
	Acquire:   `select epoch, seq, offsets, is_new from kubecdc.acquire_slot($1, $2, $3, $4, $5)`, // see the migrations
	Inventory: `select key, uid, resource_version from kubecdc.inventory_page($1, $2, $3, $4)`,    // see the migrations
	BodyPage: `select key, body, delta from kubecdc.inventory
		where stream = $1 and key > $2 and (body is not null or delta is not null) order by key limit $3`,
	PositionsAt: `select distinct on (p.key) p.value from kubecdc.checkpoints c, jsonb_each(c.positions) p
		where c.cluster = $1 and c.slot = $2 and c.seq <= $3 order by p.key, c.second desc`,
	// OpenPast does not change tables of an older release, which lack this column.
	Selected: `select slot, coalesce(to_jsonb(s)->>'selected', '') from kubecdc.slots s where cluster = $1`,
	Second:   `date_trunc('second', clock_timestamp())`,
	// A table that was just filled has no statistics.
	ByKey: `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_sort', 'off', true)`,
	Rebase:  rebase,
	Offsets: flatten,
	Parse:   nested,
}

func rebase(t *tables.Tx, stream int64, keys []string, bodies []checkpoint.Body) error {
	const set = `update kubecdc.inventory i set body = n.body, delta = null
		from unnest($2::text[], $3::bytea[]) n (key, body) where i.stream = $1 and i.key = n.key`
	bases := make([][]byte, len(bodies))
	for i := range bodies {
		bases[i] = bodies[i].Base
	}
	_, err := t.Do(set, stream, pgdb.EscapeAll(keys), bases)
	return err
}

// flatten returns offsets in their stored form, "topic/partition" → next offset, since jsonb's || merges only one level.
func flatten(o change.Offsets) json.RawMessage {
	flat := map[string]int64{}
	for topic, partitions := range o {
		for p, next := range partitions {
			flat[topic+"/"+strconv.Itoa(p)] = next
		}
	}
	text, _ := json.Marshal(flat) // can't fail: strings and numbers only
	return text
}

func nested(text []byte) (change.Offsets, error) {
	var flat map[string]int64
	if err := json.Unmarshal(text, &flat); err != nil {
		return nil, err
	}
	o := change.Offsets{}
	for name, next := range flat {
		i := strings.LastIndexByte(name, '/')
		p, err := strconv.Atoi(name[i+1:])
		if i < 0 || err != nil {
			return nil, fmt.Errorf("stored offset %q is not topic/partition", name)
		}
		o.Merge(change.Offsets{name[:i]: {p: next}})
	}
	return o, nil
}
