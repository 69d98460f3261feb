package sqlite

import (
	"context"
	"database/sql"
	"time"

	"kubecdc/change"
)

const (
	// samples is how many parts of the log are read to estimate what takes most, and sampled is how many numbers each part has.
	samples, sampled = 64, 150
	// rowBytes is about what a row takes in addition to its bodies, with its entries in indexes.
	rowBytes = 60
)

// LogSize returns the size of the file. It reads at most 2·samples·sampled rows, however large the log is.
func (r *Reader) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	size := &change.LogSize{}
	first, err :=
		column[int64](ctx, r.db, `select written from log_batches where id > (select after from log_kept) order by id limit 1`)
	if len(first) > 0 {
		size.Since = timeOf(first[0])
	}
	if err == nil {
		size.Bytes, err = usedBytes(ctx, r.db)
	}
	if err == nil {
		err = size.Estimate(ctx, size.Bytes, now, r.sample)
	}
	return size, r.fail("measure the log", err)
}

// usedBytes returns the size of the file without its free pages.
func usedBytes(ctx context.Context, db queries) (int64, error) {
	used, err := column[int64](ctx, db, `select (c.page_count - f.freelist_count) * s.page_size
		from pragma_page_count c, pragma_freelist_count f, pragma_page_size s`)
	if err != nil {
		return 0, err
	}
	return used[0], nil
}

// sample reads parts that lie evenly between the first batch since a time and the end of the log.
func (r *Reader) sample(ctx context.Context, since time.Time) (sizes map[string]float64, err error) {
	from, err := r.firstAfter(ctx, since.UnixMilli())
	if err != nil {
		return nil, err
	}
	ends, err := column[int64](ctx, r.db, `select coalesce(min(id), 0) from log_changes union all select end from (`+
		lastBatch+`)`)
	if err != nil {
		return nil, err
	}
	from, to := max(from, ends[0]), ends[1]+1
	sizes = map[string]float64{}
	step := max((to-from)/samples, sampled)
	const query = `select coalesce(r.resource, ''), op, sum(bytes + ?3) from (
		select stream, op & 255 as op, coalesce(length(body), 0) + coalesce(length(before), 0) as bytes from log_changes where id >= ?1 and id < ?2
		union all select null, 0, length(positions) from log_batches where id >= ?1 and id < ?2) x
		left join log_streams s on s.id = x.stream left join log_resources r on r.id = s.resource group by 1, 2`
	for ; from < to && err == nil; from += step {
		err = each(ctx, r.db, query, []any{from, min(from+sampled, to), rowBytes}, func(rows *sql.Rows) error {
			var resource string
			var op change.Op
			var bytes float64
			err := rows.Scan(&resource, &op, &bytes)
			if op != change.Read || since.IsZero() {
				sizes[resource] += bytes * float64(step) / sampled
			}
			return err
		})
	}
	return sizes, err
}
