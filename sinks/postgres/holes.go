package postgres

import (
	"context"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// Somebody may remove batches from the middle of the log, or a partition. The batches of a slot have consecutive numbers, unless
// an owner has given up the log's end (in_restart). The last such owner's epoch is in slots.tail_epoch. The retention drops the
// oldest partitions only.

// number is a place in a slot's batches.
type number struct {
	epoch int64
	seq   uint64
}

// numbers selects the batches of a slot after a number, without the batches that the record of a loss is about. Each row also has
// the epoch that last gave up the log's end.
const numbers = `select b.epoch, b.seq, s.tail_epoch from kubecdc_log.slots s cross join lateral (
		select epoch, seq from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and written > s.recorded
			and (epoch, seq) > ($3, $4) order by epoch, seq limit 1000) b
	where s.cluster = $1 and s.slot = $2 order by b.epoch, b.seq`

// findHole searches for a hole after a number, until a time, unless that is zero. It returns how far it came.
func (r *Reader) findHole(ctx context.Context, slot int, last number, until time.Time) (number, *sinks.Hole, error) {
	for more := true; more; {
		more = false
		var jumps [][2]number
		var b number
		var tail int64
		args, row := []any{r.cluster, slot, last.epoch, int64(last.seq)}, []any{&b.epoch, &b.seq, &tail}
		err := pgdb.Querier{DB: r.db}.Rows(ctx, numbers, args, row, func() error {
			if more = true; last.seq > 0 && b.seq != last.seq+1 && (b.epoch == last.epoch || b.epoch > tail) {
				jumps = append(jumps, [2]number{last, b})
			}
			last = b
			return nil
		})
		for _, j := range jumps {
			if err != nil {
				break
			}
			var h *sinks.Hole
			if h, err = r.hole(ctx, slot, j[0], j[1]); h != nil {
				return j[0], h, nil
			}
		}
		if err != nil || !until.IsZero() && time.Now().After(until) {
			return last, nil, err
		}
	}
	return last, nil, nil
}

// hole returns the hole between two batches of a slot. It returns nil if a record explains the hole, if the retention has dropped
// the first batch, or if other batches are between them.
func (r *Reader) hole(ctx context.Context, slot int, before, after number) (*sinks.Hole, error) {
	const (
		moved = `select stream, version from (
				select stream, version, 0::bigint as epoch, 0::bigint as seq from kubecdc_log.positions where cluster = $1 and (0::bigint, 0::bigint) %[1]s
			union all
				select p.stream, p."resourceVersion", b.epoch, b.seq from kubecdc_log.batches b, json_to_recordset(b.positions)
					as p (stream text, "resourceVersion" text) where b.cluster = $1 and b.slot = $2 and (b.epoch, b.seq) %[1]s) as m
			order by epoch, seq`
		gaps  = `select record from kubecdc_log.control where cluster = $1 and slot = $2 and type = 'gap' and (epoch, batch) >= ($3, $4)`
		count = `select count(*) from kubecdc_log.batches where cluster = $1 and slot = $2 and (epoch, seq) >= ($3, $4) and (epoch, seq) < ($5, $6)`
	)
	q, has := pgdb.Querier{DB: r.db}, 0
	args := func(n ...any) []any { return append([]any{r.cluster, slot}, n...) }
	first := args(before.epoch, int64(before.seq))
	if err := q.Row(ctx, count, append(first, after.epoch, int64(after.seq)), &has); err != nil || has != 1 {
		return nil, err
	}
	moves := func(condition string, args []any) sinks.Moves {
		return func(visit func(change.StreamID, change.ResourceVersion)) error {
			var stream change.StreamID
			var version change.ResourceVersion
			return q.Rows(ctx, fmt.Sprintf(moved, condition), args, []any{&stream, &version}, func() error {
				visit(stream, version)
				return nil
			})
		}
	}
	h, next := &sinks.Hole{Reason: fmt.Sprintf("batch %d of slot %d follows batch %d", after.seq, slot, before.seq)}, args(after.epoch, int64(after.seq))
	return h.Unexplained(moves(`<= ($3, $4)`, first), moves(`>= ($3, $4)`, next), func(visit func([]byte) error) error {
		var record []byte
		return q.Rows(ctx, gaps, next, []any{&record}, func() error { return visit(record) })
	})
}

// searchHole searches for a hole no longer than HoleTime. It returns the hole, or nil.
func (l *slotLog) searchHole(ctx context.Context) (*sinks.Hole, error) {
	h, err := l.sink.searches.Search(l.slot, func(after number, until time.Time) (number, *sinks.Hole, error) {
		return l.reader.findHole(ctx, l.slot, after, until)
	})
	return h, l.sink.db.Fail("search for holes in the log", err)
}

// Hole implements sinks.HoleFinder.
func (r *Reader) Hole(ctx context.Context) (h *sinks.Hole, err error) {
	var slots []int
	var slot int
	const query = `select slot from kubecdc_log.slots where cluster = $1`
	err = pgdb.Querier{DB: r.db}.Rows(ctx, query, []any{r.cluster}, []any{&slot}, func() error {
		slots = append(slots, slot)
		return nil
	})
	for _, slot := range slots {
		if err == nil && h == nil {
			_, h, err = r.findHole(ctx, slot, number{}, time.Time{})
		}
	}
	return h, r.db.Fail("search for holes in the log", err)
}
