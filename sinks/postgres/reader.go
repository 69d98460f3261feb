package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// Reader is the sinks.Reader of the tables. It needs only the right to select from them.
type Reader struct {
	db      *pgdb.DB
	cluster string
	counted sinks.RecentlyRemoved
	ending  sync.Mutex
	last    sinks.Cut // the end of the log
	lastAt  time.Time // when it was read
}

var _ sinks.ReadCloser = (*Reader)(nil)

// OpenReader connects. It needs only URL, PasswordFile and Cluster in the configuration.
func OpenReader(ctx context.Context, c Config) (*Reader, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile, Schema: schema,
		Migrations: migrations, ReadOnly: true, Setting: "KUBECDC_SINK_POSTGRES"})
	if err != nil {
		return nil, err
	}
	return &Reader{db: db, cluster: c.Cluster}, nil
}

// Clusters returns the names of the clusters that have a log in the tables. It needs only URL and PasswordFile in the
// configuration.
func Clusters(ctx context.Context, c Config) (names []string, err error) {
	r, err := OpenReader(ctx, c)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var name string
	err = r.db.Each(ctx, "list the clusters of the log", `select cluster from kubecdc_log.clusters order by cluster`, nil,
		[]any{&name}, func() error {
			names = append(names, name)
			return nil
		})
	return names, err
}

func (r *Reader) Close() error {
	r.db.Close()
	return nil
}

// resourceID is the id that sinks has for a row's resource.
const resourceID = `c.resource || case when c.api_group = '' then '' else '.' || c.api_group end`

// Resources finds streams in the table counts. It finds streams that never had an object by the record of their beginning, or by
// their position if that record was dropped.
func (r *Reader) Resources(ctx context.Context) (ids []string, err error) {
	const query = `select distinct split_part(split_part(stream, '?', 1), '@', 1) as id from (
			select stream from kubecdc_log.counts where cluster = $1
			union select stream from kubecdc_log.control where cluster = $1 and type = '` + string(change.ControlSnapshotBegin) + `'
			union select stream from kubecdc_log.positions where cluster = $1) as s order by id`
	var id string
	err = r.db.Each(ctx, "list the resources of the log", query, []any{r.cluster}, []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

func (r *Reader) FindsObjects() bool { return true }

// CutAt scans for each slot's last batch, and for its first one if none is before the cut.
func (r *Reader) CutAt(ctx context.Context, logged time.Time) (sinks.Cut, error) {
	if logged.IsZero() {
		return r.cut(ctx, `select slot, seq, 1 from kubecdc_log.slots where cluster = $1`, r.cluster)
	}
	const query = `select s.slot, coalesce(b.seq, 0), coalesce(b.seq, first.seq, 1) from kubecdc_log.slots s
		left join lateral (select seq from kubecdc_log.batches
			where cluster = s.cluster and slot = s.slot and written <= $2 order by epoch desc, seq desc limit 1) b on true
		left join lateral (select seq from kubecdc_log.batches
			where cluster = s.cluster and slot = s.slot order by epoch, seq limit 1) first on true
		where s.cluster = $1`
	cut, err := r.cut(ctx, query, r.cluster, logged)
	if errors.Is(err, sinks.ErrNotRetained) {
		err = fmt.Errorf("%s: %w", logged.UTC().Format(time.RFC3339), err)
	}
	return cut, err
}

func (r *Reader) cut(ctx context.Context, query string, args ...any) (sinks.Cut, error) {
	cut := sinks.Cut{Batches: sinks.Place{}}
	var slot int
	var seq, first uint64
	err := r.db.Each(ctx, "find the batches of the log", query, args, []any{&slot, &seq, &first}, func() error {
		if cut.Batches[slot] = seq; seq == 0 && first > 1 {
			return sinks.ErrNotRetained
		}
		return nil
	})
	return cut, err
}

// Retained is the same for all resources, except for losses, which are counted as a new owner does.
func (r *Reader) Retained(ctx context.Context, resources []string) (map[string]sinks.Retained, error) {
	known, err := r.Resources(ctx)
	if err != nil {
		return nil, err
	}
	since, err := r.retainedSince(ctx)
	if err != nil {
		return nil, err
	}
	end, err := r.CutAt(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	removed, err := r.counted.Find("", func() (sinks.Removed,
		error) {
		return r.removed(ctx, slices.Sorted(maps.Keys(end.Batches))...)
	})
	return removed.Retained(known, resources, since), r.db.Fail("find out whether the log has lost anything", err)
}

// retainedSince returns when the oldest partitions begin, if any before them was dropped.
func (r *Reader) retainedSince(ctx context.Context) (since time.Time, err error) {
	const query = `select max(p.lower) from (select min(lower) as lower from kubecdc_log.partitions
			where parent in ('batches', 'changes') group by parent) p
		where exists (select from kubecdc_log.slots s cross join lateral (select seq from kubecdc_log.batches
			where cluster = s.cluster and slot = s.slot order by epoch, seq limit 1) b where s.cluster = $1 and b.seq > 1)`
	err = pgdb.Querier{DB: r.db}.Row(ctx, query, []any{r.cluster}, &since)
	return since, r.db.Fail("find out since when every change is kept", err)
}

// Controls makes the batch records from the rows of batches. The log is ordered by the times at which batches were written.
// Several slots may have the same time.
func (r *Reader) Controls(ctx context.Context, since time.Time, _ func(*sinks.Span) bool,
	visit func(*change.Control) error) error {
	const query = `select slot, epoch, batch, n, written, 0 as changes, null as positions, record from kubecdc_log.control
			where cluster = $1 and written >= $2
		union all
			select slot, epoch, seq, $3, written, changes, positions, null from kubecdc_log.batches
			where cluster = $1 and written >= $2
		order by written, slot, epoch, batch, n`
	var row change.Control
	var n int
	var written time.Time
	var positions []change.Position
	var record *change.Control
	into := []any{&row.Slot, &row.Epoch, &row.Batch, &n, &written, &row.Changes, &positions, &record}
	return r.db.Each(ctx, "read the control records", query, []any{r.cluster, since, math.MaxInt32}, into, func() error {
		c := record
		if c == nil {
			c = &change.Control{Type: change.ControlBatch, TimeMs: written.UnixMilli(),
				BatchEnd: change.BatchEnd{Changes: row.Changes, Positions: positions}}
		}
		c.Cluster, c.Slot, c.Epoch, c.Batch = r.cluster, row.Slot, row.Epoch, row.Batch
		record, positions = nil, nil
		return visit(c)
	})
}

// followEvery is how often new batches are polled for.
const followEvery = 200 * time.Millisecond

// Changes finds objects in the order of their keys if the query needs that, or only some changes of each. Otherwise it first
// visits what is left of partitions that were dropped. It then reads one name by its index, and anything else batch by batch, in
// the order in which they were written.
func (r *Reader) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	s := r.scan(q, visit)
	switch {
	case q.Each == sinks.Table:
		return s.objects(ctx, "")
	case q.Each == sinks.Last && q.To == nil:
		return s.last(ctx)
	case q.Keys != nil && !q.Follow || q.Each != sinks.All:
		return s.byObject(ctx)
	}
	if q.After == nil {
		if err := s.unchanged(ctx); err != nil {
			return err
		}
	}
	if q.Name != "" && !q.Follow {
		return s.object(ctx)
	}
	for {
		to := q.To
		if to == nil {
			end, err := r.end(ctx, q.Follow)
			if err != nil {
				return err
			}
			to = &end
		}
		if err := s.batches(ctx, to); err != nil || !q.Follow {
			return err
		}
		if err := wait.For(ctx, followEvery); err != nil {
			return err
		}
	}
}

// end returns the end of the log. It is read for all followers at once, of which there may be hundreds.
func (r *Reader) end(ctx context.Context, follows bool) (cut sinks.Cut, err error) {
	if !follows {
		return r.CutAt(ctx, time.Time{})
	}
	r.ending.Lock()
	defer r.ending.Unlock()
	if time.Since(r.lastAt) > followEvery/2 {
		if cut, err = r.CutAt(ctx, time.Time{}); err != nil {
			return cut, err
		}
		r.last, r.lastAt = cut, time.Now()
	}
	return r.last, nil
}

// pending lists the batches with changes that were not read yet, up to a cut, in the order in which they were written.
func (s *scan) pending(ctx context.Context, to *sinks.Cut) (all []storedBatch, err error) {
	const query = `select slot, epoch, seq, written, changes from kubecdc_log.batches
		where cluster = $1 and slot = $2 and (epoch, seq) > ($3, $4) and seq > $5 and seq <= $6 order by epoch, seq`
	for slot, end := range to.Batches {
		last := s.lastRead[slot]
		after := uint64(0)
		if s.After != nil {
			after = s.After.Batches[slot]
		}
		if end <= max(after, last.seq) {
			continue
		}
		var b storedBatch
		read, jumped := last.seq, false
		args := []any{s.reader.cluster, slot, last.epoch, int64(last.seq), int64(after), int64(end)}
		into := []any{&b.slot, &b.epoch, &b.seq, &b.written, &b.changes}
		err := s.reader.db.Each(ctx, "list the batches of the log", query, args, into, func() error {
			if after > 0 && last.seq == 0 && b.seq > after+1 {
				return fmt.Errorf("slot %d has no batch %d any more: %w", slot, after+1, sinks.ErrNotRetained)
			}
			jumped = jumped || last.seq == read && read > 0 && b.seq > read+1
			last = b
			if b.changes > 0 {
				all = append(all, b)
			}
			return nil
		})
		if err == nil && jumped { // the log follows it with a gap in the numbers, which a lost end may cause, or dropped batches
			err = s.holds(ctx, `select exists (select from kubecdc_log.batches where cluster = $1 and slot = $2 and seq <= $3)`,
				s.reader.cluster, slot, int64(read))
		}
		if err != nil {
			return nil, err
		}
		s.lastRead[slot] = last
	}
	slices.SortStableFunc(all, func(a, b storedBatch) int { return a.written.Compare(b.written) })
	return all, nil
}
