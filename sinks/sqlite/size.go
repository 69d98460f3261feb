package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
)

const (
	// samples is how many parts of the log are read to estimate what takes most, and sampled is how many numbers each part has.
	samples, sampled = 64, 150
	// rowBytes is about what a row takes in addition to its bodies, with its entries in indexes.
	rowBytes = 60
	// leastAge is the age at which a log shows a pace.
	leastAge = time.Hour
	largest  = 3
)

// LogSize returns the size of the file, of all clusters in it, and estimates what takes most and what the last day has written. It reads
// at most 2·samples·sampled rows, however large the log is. Limit and Full are not set.
func (m *Memory) LogSize(ctx context.Context, now time.Time) (*change.LogSize, error) {
	r := m.reader
	used, err := usedBytes(ctx, r.db)
	if err != nil {
		return nil, r.fail("measure the log", err)
	}
	size := &change.LogSize{Bytes: used}
	all, err := r.sampleFrom(ctx, 0)
	if err == nil && all.bytes > 0 {
		size.Largest = all.largest(float64(used) / all.bytes)
		err = r.measurePace(ctx, size, float64(used)/all.bytes, now)
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

// measurePace sets since when the log has every change, and what it writes in a day. A younger log is extrapolated.
func (r *Reader) measurePace(ctx context.Context, size *change.LogSize, scale float64, now time.Time) error {
	after, _, err := r.retained(ctx)
	if err != nil {
		return err
	}
	first, err := batches(ctx, r.db, `where id > ? order by id limit 1`, after)
	if err != nil || len(first) == 0 {
		return err
	}
	size.Since = timeOf(first[0].written)
	age := min(now.Sub(size.Since), 24*time.Hour)
	if age < leastAge {
		return nil
	}
	from, err := r.firstAfter(ctx, now.Add(-24*time.Hour).UnixMilli())
	if err != nil {
		return err
	}
	day, err := r.sampleFrom(ctx, from)
	size.Daily = int64((day.bytes - day.listed) * scale * 24 / age.Hours())
	return err
}

// sample is what a part of the log takes, as estimated by its rows.
type sample struct {
	bytes, listed float64 // listed: of first lists
	byResource    map[string]float64
}

// sampleFrom reads parts that lie evenly between a number and the end of the log.
func (r *Reader) sampleFrom(ctx context.Context, from int64) (sample, error) {
	s := sample{byResource: map[string]float64{}}
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
			s.add(resource, op, bytes*float64(step)/sampled)
			return err
		})
	}
	return s, err
}

func (s *sample) add(resource string, op change.Op, bytes float64) {
	if s.bytes += bytes; op == change.Read {
		s.listed += bytes
	}
	if resource != "" {
		s.byResource[resource] += bytes
	}
}

func (s *sample) largest(scale float64) (all []change.ResourceSize) {
	for _, resource := range slices.SortedFunc(maps.Keys(s.byResource), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.byResource[b], s.byResource[a]), cmp.Compare(a, b))
	})[:min(largest, len(s.byResource))] {
		all = append(all, change.ResourceSize{Resource: resource, Bytes: int64(s.byResource[resource] * scale)})
	}
	return all
}
