package postgres

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
)

const (
	sampledPages = 1000 // pages of changes that a sample reads, each of about ten rows
	rowBytes     = 330  // about what a row takes in addition to its bodies, with its entries in indexes
)

// LogSize returns the size of all tables. It estimates the rest from a sample of changes, however large the log is.
func (r *Reader) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	const query = `select sum(pg_total_relation_size(oid))::bigint,
			coalesce(sum(pg_total_relation_size(oid)) filter (where relispartition), 0)::bigint,
			(select min(first.written) from kubecdc_log.slots s cross join lateral (select written from kubecdc_log.batches
				where cluster = s.cluster and slot = s.slot order by epoch, seq limit 1) first)
		from pg_class where relnamespace = 'kubecdc_log'::regnamespace and relkind = 'r'`
	size := &change.LogSize{}
	var history int64 // without what lives, and without audit records
	err := pgdb.Querier{DB: r.db}.Row(ctx, query, nil, &size.Bytes, &history, &size.Since)
	if err == nil {
		err = size.Estimate(ctx, history, now, r.sample)
	}
	return size, r.db.Fail("measure the log", err)
}

// sample reads bodies' sizes alone, and not the bodies.
func (r *Reader) sample(ctx context.Context, since time.Time) (map[string]float64, error) {
	const query = `with percent as (select least(100, 100.0 * $2 * current_setting('block_size')::int /
			greatest(1, sum(pg_relation_size(to_regclass(format('kubecdc_log.%I', name)))))) as value
			from kubecdc_log.partitions where parent = 'changes' and upper > $1)
		select ` + resourceID + `,
			(sum($3 + coalesce(pg_column_size(c.before), 0) + coalesce(pg_column_size(c.after), 0)) * 100 / (select value from percent))::float8
		from kubecdc_log.changes c tablesample system ((select value from percent)) where c.written >= $1 and (c.op <> 'r' or $4) group by 1`
	sizes := map[string]float64{}
	var resource string
	var bytes float64
	err := pgdb.Querier{DB: r.db}.Rows(ctx, query, []any{since, sampledPages, rowBytes, since.IsZero()}, []any{&resource, &bytes},
		func() error {
			sizes[resource] = bytes
			return nil
		})
	return sizes, err
}
