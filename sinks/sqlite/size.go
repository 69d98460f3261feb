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
	err := r.measure(ctx, size)
	if err == nil {
		err = size.Estimate(size.Bytes, now, func(since time.Time) (*change.LogSample, error) { return r.sample(ctx, since) })
	}
	return size, r.fail("measure the log", err)
}

// measure sets the size, and since when the log has every change.
func (r *Reader) measure(ctx context.Context, size *change.LogSize) (err error) {
	if size.Bytes, err = usedBytes(ctx, r.db); err != nil {
		return err
	}
	after, _, err := r.retained(ctx)
	if err != nil {
		return err
	}
	first, err := batches(ctx, r.db, `where id > ? order by id limit 1`, after)
	if len(first) > 0 {
		size.Since = timeOf(first[0].written)
	}
	return err
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
func (r *Reader) sample(ctx context.Context, since time.Time) (*change.LogSample, error) {
	s := &change.LogSample{}
	from, err := r.firstAfter(ctx, since.UnixMilli())
	if err != nil {
		return s, err
	}
	ends, err := column[int64](ctx, r.db, `select coalesce(min(id), 0) from log_changes union all select end from (`+lastBatch+`)`)
	if err != nil {
		return s, err
	}
	from, to := max(from, ends[0]), ends[1]+1
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
			s.Add(resource, op == change.Read, bytes*float64(step)/sampled)
			return err
		})
	}
	return s, err
}
