package postgres

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/internal/wait"
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

// numbered is a batch, and the epoch that last gave up the end of the slot's log. Its sum is "" if that is not known. The log is
// new if neither the retention nor a loss has removed batches.
type numbered struct {
	number
	written time.Time
	sum     string
	tail    int64
	isNew   bool
}

// numbers selects the batches of a slot after a number. It leaves out batches that a record of a loss covers. It also selects
// their sums if $5. Tables of an earlier release have no sums.
const numbers = `select b.epoch, b.seq, b.written, case when $5 then row_to_json(b) ->> 'sum' end, s.tail_epoch,
		s.tail_epoch = 0 and s.recorded = '-infinity' and not exists (select from kubecdc_log.positions where cluster = s.cluster)
	from kubecdc_log.slots s cross join lateral (
		select * from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and written > s.recorded
			and (epoch, seq) > ($3, $4) order by epoch, seq limit 1000) b
	where s.cluster = $1 and s.slot = $2 order by b.epoch, b.seq`

// findHole searches for a hole after a number, until a time, unless that is zero. With sums it also reads what the batches have.
// It returns how far it came.
func (r *Reader) findHole(ctx context.Context, slot int, last number, sums bool, until time.Time) (number, *sinks.Hole, error) {
	for {
		var page []numbered
		var b numbered
		args, row := []any{r.cluster, slot, last.epoch, int64(last.seq), sums}, []any{&b.epoch, &b.seq, &b.written, &b.sum,
			&b.tail, &b.isNew}
		err := pgdb.Querier{DB: r.db}.Rows(ctx, numbers, args, row, func() error {
			page = append(page, b)
			return nil
		})
		if err != nil || len(page) == 0 {
			return last, nil, err
		}
		began := time.Now()
		for i := range page {
			h, err := r.holeBefore(ctx, slot, last, &page[i])
			if err != nil || h != nil {
				return last, h, err
			}
			if last = page[i].number; !until.IsZero() && time.Now().After(until) {
				return last, nil, nil
			}
		}
		if until.IsZero() {
			if err := wait.For(ctx, time.Since(began)); err != nil { // leaves half of the time to others
				return last, nil, err
			}
		}
	}
}

// holeBefore returns the hole between two batches that follow each other, or in the second one.
func (r *Reader) holeBefore(ctx context.Context, slot int, last number, b *numbered) (*sinks.Hole, error) {
	isJump := last.seq > 0 && b.seq != last.seq+1 && (b.epoch == last.epoch || b.epoch > b.tail)
	if isJump || b.isNew && last.seq == 0 && b.seq > 1 {
		reason := fmt.Sprintf("batch %d of slot %d follows batch %d", b.seq, slot, last.seq)
		return r.hole(ctx, slot, last, b.number, number{math.MaxInt64, math.MaxInt64}, reason)
	}
	if b.sum == "" {
		return nil, nil
	}
	found, err := r.sumOf(ctx, slot, b.number, b.written)
	if err != nil || strconv.FormatInt(found, 10) == b.sum {
		return nil, err
	}
	return r.hole(ctx, slot, b.number, b.number, b.number,
		fmt.Sprintf("batch %d of slot %d is not what was written", b.seq, slot))
}

// hole returns the hole between two batches of a slot, or in one. It has the streams whose positions the batches from after to
// last move. It returns nil if a record explains the hole, if the retention has dropped the first batch, or if other batches are
// between them.
func (r *Reader) hole(ctx context.Context, slot int, before, after, last number, reason string) (*sinks.Hole, error) {
	const (
		moved = `select stream, version from (
				select stream, version, 0::bigint as epoch, 0::bigint as seq from kubecdc_log.positions where cluster = $1
			union all
				select p.stream, p."resourceVersion", b.epoch, b.seq from kubecdc_log.batches b, json_to_recordset(b.positions)
					as p (stream text, "resourceVersion" text) where b.cluster = $1 and b.slot = $2) as m
			where (epoch, seq) >= ($3, $4) and (epoch, seq) <= ($5, $6) order by epoch, seq`
		records = `select record from kubecdc_log.control where cluster = $1 and slot = $2 and type in ('gap', 'snapshot-begin')
			and (epoch, batch) >= ($3, $4)`
		count = `select count(*) from kubecdc_log.batches
			where cluster = $1 and slot = $2 and (epoch, seq) >= ($3, $4) and (epoch, seq) <= ($5, $6)`
	)
	q, has, want := pgdb.Querier{DB: r.db}, 0, map[bool]int{true: 1, false: 2}[before == after || before == number{}]
	args := func(n ...number) (all []any) {
		all = []any{r.cluster, slot}
		for _, n := range n {
			all = append(all, n.epoch, int64(n.seq))
		}
		return all
	}
	if err := q.Row(ctx, count, args(before, after), &has); err != nil || has != want {
		return nil, err
	}
	moves := func(from, to number) sinks.Moves {
		return func(visit func(change.StreamID, change.ResourceVersion)) error {
			var stream change.StreamID
			var version change.ResourceVersion
			return q.Rows(ctx, moved, args(from, to), []any{&stream, &version}, func() error {
				visit(stream, version)
				return nil
			})
		}
	}
	h := &sinks.Hole{Reason: reason, InBatch: before == after}
	return h.Unexplained(moves(number{}, number{after.epoch, after.seq - 1}), moves(after, last),
		func(visit func([]byte) error) error {
			var record []byte
			return q.Rows(ctx, records, args(after), []any{&record}, func() error { return visit(record) })
		})
}

// searchHole searches for a hole no longer than HoleTime. It returns the hole, or nil.
func (l *slotLog) searchHole(ctx context.Context) (*sinks.Hole, error) {
	h, err := l.sink.searches.Search(l.slot, func(after number, again bool, until time.Time) (number, *sinks.Hole, error) {
		return l.reader.findHole(ctx, l.slot, after, again, until)
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
			_, h, err = r.findHole(ctx, slot, number{}, true, time.Time{})
		}
	}
	return h, r.db.Fail("search for holes in the log", err)
}
