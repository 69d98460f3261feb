package sqlite

import (
	"cmp"
	"context"
	"math"
	"time"

	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

const (
	maintainEvery = time.Minute
	// shortest is the minimum length of the history. Everybody who follows the log reads a change within this time.
	shortest = 10 * time.Minute
	// sliceRows is how many rows one transaction reads, so that batches wait only for a moment.
	sliceRows = 2000
	// slice gives free pages back to the disk, a limited number in one statement.
	slice = `pragma incremental_vacuum(1000)`
)

// maintain removes what is older than the history, or more than the file may have, until the context ends.
func (l *slotLog) maintain(ctx context.Context) {
	for wait.For(ctx, maintainEvery) == nil {
		if err := l.sink.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.sink.Logger.Warn("old changes could not be removed; it is tried again", "in", maintainEvery.String(), "error", err)
		}
	}
}

// Prune removes the changes that are older than the history, and then the oldest ones until the file is small enough. The last
// state of living objects is never removed. A run reads all that remains from earlier times, so it does nothing until some
// changes are a fiftieth older than the history.
func (s *Sink) Prune(ctx context.Context, now time.Time) error {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	r := newReader(s.file, "")
	defer r.db.close()
	err := s.removeOld(ctx, r, now)
	if err == nil && s.MaxSize > 0 {
		err = s.shrink(ctx, r, now)
	}
	if err == nil {
		err = s.release(ctx)
	}
	return s.file.Fail("remove old changes", err)
}

func (s *Sink) removeOld(ctx context.Context, r *Reader, now time.Time) error {
	if s.History == sinks.Forever {
		return nil
	}
	after, _, err := r.retained(ctx)
	if err != nil {
		return err
	}
	first, err := batches(ctx, s.file.DB(), `where id > ? order by id limit 1`, after)
	limit := now.Add(-max(s.History, shortest))
	if err != nil || len(first) == 0 || limit.Sub(time.UnixMilli(first[0].written)) < s.History/50 {
		return err
	}
	next, err := r.firstAfter(ctx, limit.UnixMilli())
	if err != nil {
		return err
	}
	return s.removeUpTo(ctx, next-1)
}

// shrink removes the oldest tenth of the batches, again and again, until the file would be small enough.
func (s *Sink) shrink(ctx context.Context, r *Reader, now time.Time) error {
	for {
		used, err := usedBytes(ctx, s.file.DB())
		if err != nil || used <= s.MaxSize {
			return err
		}
		after, _, err := r.retained(ctx)
		if err != nil {
			return err
		}
		last, err := r.firstAfter(ctx, now.Add(-shortest).UnixMilli())
		if err != nil {
			return err
		}
		next, err := batches(ctx, s.file.DB(), `where id > ? and id <= ? order by id limit 1`, after+max(0, last-after)/10, last)
		if err != nil {
			return err
		}
		if len(next) == 0 || next[0].id-1 <= after {
			s.Logger.Warn("the file is larger than KUBECDC_SQLITE_MAX_SIZE, and its history can't be shorter: raise it, or "+
				"export less",
				"bytes", used, "limit", s.MaxSize)
			return nil
		}
		if err := s.removeUpTo(ctx, next[0].id-1); err != nil {
			return err
		}
	}
}

// removeUpTo removes the changes up to a number, which is the end of a batch. It retains a change if a later change is a delta of
// it, or if it is the last change of a living object. First it stores for readers when the complete history begins.
func (s *Sink) removeUpTo(ctx context.Context, to int64) error {
	err := s.inTx(ctx, func(t *tx) error {
		const update = `update log_kept set after = ?1, since = coalesce((select written from log_batches where id > ?1 order by id limit 1),
			(select written + 1 from log_batches order by id desc limit 1), 0) where after < ?1`
		return t.do(update, to)
	})
	if err != nil {
		return err
	}
	for _, remove := range removals {
		if err := s.removeFrom(ctx, remove, to); err != nil {
			return err
		}
	}
	var since int64
	if err := s.file.DB().QueryRowContext(ctx, `select since from log_kept`).Scan(&since); err != nil {
		return err
	}
	return cmp.Or(s.removeAudit(ctx, since), s.removeSchemas(ctx, since))
}

// removal removes the rows of a table that satisfy a condition, up to a number.
type removal struct{ table, number, condition string }

var removals = []removal{
	{"log_spans", "first", "true"},
	{"log_controls", "batch", "true"},
	{"log_dead_letters", "batch", "true"},
	{"log_batches", "id", `seq <> (select s.seq from log_slots s where s.id = log_batches.slot)`},
	// The last change of an object is needed if the object lives, or changes later. The change with its full body is also needed
	// then.
	{"log_changes", "id", `(select gone from log_objects where id = log_changes.object) <= ?1 or not exists (select 1 from
		(select l.id, l.back from log_changes l where l.object = log_changes.object and l.id <= ?1 order by l.id desc limit 1) last
		where log_changes.id in (last.id, last.id - last.back))`},
	{"log_objects", "id", `gone <= ?1`}, // whose changes are gone
}

func (s *Sink) removeFrom(ctx context.Context, r removal, to int64) error {
	span := `select coalesce(min(number), 0), coalesce(max(number), 0) from
		(select ` + r.number + ` as number from ` + r.table + ` where number > ? and number <= ? order by number limit ?)`
	remove := `delete from ` + r.table + ` where ` + r.number + ` >= ?2 and ` + r.number + ` <= ?3 and (` + r.condition +
		`) and ?1 > 0`
	for end := int64(0); ; {
		var from int64
		if err := s.file.DB().QueryRowContext(ctx, span, end, to, sliceRows).Scan(&from, &end); err != nil || end == 0 {
			return err
		}
		if err := s.inTx(ctx, func(t *tx) error { return t.do(remove, to, from, end) }); err != nil {
			return err
		}
	}
}

// release gives free pages back to the disk, once they are a tenth of the file. A file that was not made for that retains them,
// to be used again.
func (s *Sink) release(ctx context.Context) error {
	for before := int64(math.MaxInt64); ; {
		var free, all int64
		const query = `select f.freelist_count, c.page_count from pragma_freelist_count f, pragma_page_count c`
		if err := s.file.DB().QueryRowContext(ctx, query).Scan(&free, &all); err != nil || free*10 < all || free >= before {
			return err
		}
		before = free
		if _, err := s.file.DB().ExecContext(ctx, slice); err != nil {
			return err
		}
	}
}
