package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
)

// Reader is the sinks.Reader of a file. Another process may export to the file meanwhile.
type Reader struct {
	file    *sqlitefile.File
	db      *prepared
	cluster string
	counted sinks.RecentlyRemoved // by the resources
	pages   chan struct{}         // has an element for each page that a follower reads
	ending  sync.Mutex
	last    int64     // the last number of the log
	lastAt  time.Time // when it was read
}

var _ sinks.ReadCloser = (*Reader)(nil)

// NewReader reads the log of a cluster in a file. Close closes the file.
func NewReader(ctx context.Context, file *sqlitefile.File, cluster string) (*Reader, error) {
	if err := migrate(ctx, file); err != nil {
		return nil, err
	}
	return newReader(file, cluster), nil
}

func newReader(file *sqlitefile.File, cluster string) *Reader {
	return &Reader{file: file, db: &prepared{db: file.DB(), texts: map[string]*sql.Stmt{}}, cluster: cluster,
		pages: make(chan struct{}, followersAtOnce)}
}

// Close closes the file.
func (r *Reader) Close() error {
	r.db.close()
	r.file.Close()
	return nil
}

func (r *Reader) fail(op string, err error) error { return r.file.Fail(op, err) }

// Resources returns the ids of the resources whose streams the log has, in order. A resource without objects is included.
func (r *Reader) Resources(ctx context.Context) ([]string, error) {
	const query = `select resource from log_resources r join log_clusters k on k.id = r.cluster
		where k.cluster = ? and exists (select 1 from log_streams where resource = r.id) order by resource`
	ids, err := column[string](ctx, r.db, query, r.cluster)
	return ids, r.fail("list the resources of the log", err)
}

// slots returns the rows of the cluster's slots: their numbers by id, and their last batches.
func (r *Reader) slots(ctx context.Context) (numbers map[int64]int, cut sinks.Cut, err error) {
	numbers, cut = map[int64]int{}, sinks.Cut{Batches: sinks.Place{}}
	const query = `select s.id, s.slot, s.seq from log_slots s join log_clusters k on k.id = s.cluster where k.cluster = ?`
	err = each(ctx, r.db, query, []any{r.cluster}, func(rows *sql.Rows) error {
		var id int64
		var slot int
		var seq uint64
		if err := rows.Scan(&id, &slot, &seq); err != nil {
			return err
		}
		numbers[id], cut.Batches[slot] = slot, seq
		return nil
	})
	return numbers, cut, err
}

// end returns the last number of the log. It is read for all followers at once, of which there may be hundreds.
func (r *Reader) end(ctx context.Context) (int64, error) {
	r.ending.Lock()
	defer r.ending.Unlock()
	if time.Since(r.lastAt) < followEvery/2 {
		return r.last, nil
	}
	ends, err := column[int64](ctx, r.db, `select end from (`+lastBatch+`)`)
	if err == nil {
		r.last, r.lastAt = ends[0], time.Now()
	}
	return r.last, err
}

func (r *Reader) FindsObjects() bool { return true }

// CutAt finds the last batch up to a time, and each slot's last batch up to that one.
func (r *Reader) CutAt(ctx context.Context, logged time.Time) (sinks.Cut, error) {
	numbers, cut, err := r.slots(ctx)
	if err == nil && !logged.IsZero() {
		err = r.fillCut(ctx, logged.UnixMilli(), numbers, cut)
	}
	return cut, r.fail("find the batch of a time", err)
}

func (r *Reader) fillCut(ctx context.Context, logged int64, numbers map[int64]int, cut sinks.Cut) error {
	end, err := r.firstAfter(ctx, logged)
	if err != nil {
		return err
	}
	after, since, err := r.retained(ctx)
	if err == nil && logged < since && end <= after+1 {
		return fmt.Errorf("%s: %w", time.UnixMilli(logged).UTC().Format(time.RFC3339), sinks.ErrNotRetained)
	}
	for id, slot := range numbers {
		last, err := r.lastBefore(ctx, id, end)
		if err != nil {
			return err
		}
		cut.Batches[slot] = 0
		if len(last) > 0 {
			cut.Batches[slot] = last[0].seq
		}
	}
	return nil
}

// lastBefore finds a slot's last batch before an id, if there is one.
func (r *Reader) lastBefore(ctx context.Context, slot, id int64) ([]batch, error) {
	return batches(ctx, r.db, `where slot = ? and id < ? order by id desc limit 1`, slot, id)
}

// lastUpTo finds a slot's last batch up to a number, if there is one.
func (r *Reader) lastUpTo(ctx context.Context, slot int64, seq uint64) ([]batch, error) {
	end, err := r.first(ctx, slot, func(b *batch) bool { return b.seq > seq })
	if err != nil {
		return nil, err
	}
	return r.lastBefore(ctx, slot, end)
}

// firstAfter returns the id of the first batch that was written after a time, or an id after the last batch. Ids and times
// increase together.
func (r *Reader) firstAfter(ctx context.Context, logged int64) (int64, error) {
	return r.first(ctx, 0, func(b *batch) bool { return b.written > logged })
}

// first returns the id of the first batch for which behind is true, in a slot, or in all slots if slot is 0. behind must be true
// for all batches after that one. If there is none, first returns an id after the last batch.
func (r *Reader) first(ctx context.Context, slot int64, behind func(*batch) bool) (int64, error) {
	var low, high int64
	const ends = `select coalesce(min(id), 1), coalesce(max(id + changes), 0) + 1 from
		(select id, changes from log_batches where id in (select min(id) from log_batches union select max(id) from log_batches))`
	if err := r.file.DB().QueryRowContext(ctx, ends).Scan(&low, &high); err != nil {
		return 0, err
	}
	for low < high { // low begins a batch, or is after the last one
		middle := low + (high-low)/2
		next, err := batches(ctx, r.db, `where id >= ? and id < ? and ? in (0, slot) order by id limit 1`, middle, high, slot)
		if err != nil {
			return 0, err
		}
		if len(next) == 0 || behind(&next[0]) {
			high = middle
		} else {
			low = next[0].id + next[0].changes + 1
		}
	}
	return low, nil
}

// retained returns up to which id changes may be gone, and since when all are there. Both are zero if none are gone.
func (r *Reader) retained(ctx context.Context) (after, since int64, err error) {
	err = r.file.DB().QueryRowContext(ctx, `select after, since from log_kept`).Scan(&after, &since)
	return after, since, err
}

// Retained returns when the history begins, which is the same time for all resources unless they were copied from another log.
func (r *Reader) Retained(ctx context.Context, resources []string) (map[string]sinks.Retained, error) {
	known, err := r.Resources(ctx)
	if err != nil {
		return nil, err
	}
	_, since, err := r.retained(ctx)
	if err != nil {
		return nil, r.fail("find out since when every change is kept", err)
	}
	if len(resources) == 0 {
		resources = nil
	}
	removed, err := r.counted.Find(list(resources), func() (sinks.Removed, error) { return r.removed(ctx, resources) })
	all := removed.Retained(known, resources, timeOf(since))
	if err == nil {
		err = r.fail("find out since when resources are complete", each(ctx, r.db, `select r.resource, i.since, i.lost from log_incomplete i
			join log_resources r on r.id = i.resource join log_clusters k on k.id = r.cluster and k.cluster = ?`, []any{r.cluster}, func(rows *sql.Rows) error {
			var id, lost string
			var since int64
			err := rows.Scan(&id, &since, &lost)
			if has, asked := all[id]; asked {
				if later := timeOf(since); later.After(has.Since) {
					has.Since = later
				}
				has.Lost = cmp.Or(has.Lost, lost)
				all[id] = has
			}
			return err
		}))
	}
	return all, err
}

// timeOf converts a time in milliseconds. 0 becomes the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// selected selects the rows of the cluster, ?1, and of some of its resources. ?2 is a list of them, or null for all.
const selected = `from log_resources r join log_clusters k on k.id = r.cluster and k.cluster = ?1
	and (?2 = 'null' or r.resource in (select value from json_each(?2))) `

// list returns a list as the parameter of a statement.
func list[T any](values []T) string {
	text, _ := json.Marshal(values) // numbers and strings only: can't fail
	return string(text)
}

// streamsOf returns the ids of the cluster's streams of some resources. If resources is nil, it returns all.
func (r *Reader) streamsOf(ctx context.Context, resources []string) ([]int64, error) {
	ids, err := column[int64](ctx, r.db, `select s.id `+selected+`join log_streams s on s.resource = r.id`, r.cluster,
		list(resources))
	return append([]int64{}, ids...), err // an empty list, and not null, if there are none
}
