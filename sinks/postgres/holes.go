package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

// Somebody may remove batches from the middle of the log, or a partition. The batches of a slot have consecutive numbers, unless an owner
// has given up the log's end (in_restart), which slots.tail_epoch remembers of the last one. Older partitions go from the beginning alone.

// number is a place in a slot's batches.
type number struct {
	epoch int64
	seq   uint64
}

// numbers selects the batches of a slot after a number that no record of a loss is about, and the epoch that last gave up the log's end.
const numbers = `select b.epoch, b.seq, s.tail_epoch from kubecdc_log.slots s cross join lateral (
		select epoch, seq from kubecdc_log.batches where cluster = s.cluster and slot = s.slot and written > s.recorded
			and (epoch, seq) > ($3, $4) order by epoch, seq limit 1000) b
	where s.cluster = $1 and s.slot = $2 order by b.epoch, b.seq`

// findHole looks for a hole after a number, until a time, unless that is zero. It returns how far it came.
func (r *Reader) findHole(ctx context.Context, slot int, at number, until time.Time) (number, *sinks.Hole, error) {
	for more := true; more; {
		more = false
		var jumps [][2]number
		var b number
		var tail int64
		err := pgdb.Querier{DB: r.db}.Rows(ctx, numbers, []any{r.cluster, slot, at.epoch, int64(at.seq)}, []any{&b.epoch, &b.seq, &tail}, func() error {
			if more = true; at.seq > 0 && b.seq != at.seq+1 && (b.epoch == at.epoch || b.epoch > tail) {
				jumps = append(jumps, [2]number{at, b})
			}
			at = b
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
			return at, nil, err
		}
	}
	return at, nil, nil
}

// hole returns the hole between two batches of a slot, or nil if a record explains it, if the retention has dropped the first one, or if
// others are between them.
func (r *Reader) hole(ctx context.Context, slot int, before, after number) (*sinks.Hole, error) {
	const (
		moved = `select p.stream, p."resourceVersion" from kubecdc_log.batches b, json_to_recordset(b.positions)
			as p (stream text, "resourceVersion" text) where b.cluster = $1 and b.slot = $2 and `
		order   = ` order by b.epoch, b.seq`
		dropped = `select stream, version from kubecdc_log.positions where cluster = $1 and $2 >= 0`
		gaps    = `select record from kubecdc_log.control where cluster = $1 and slot = $2 and type = 'gap' and (epoch, batch) >= ($3, $4)`
		between = `select count(*) from kubecdc_log.batches where cluster = $1 and slot = $2 and (epoch, seq) >= ($3, $4) and (epoch, seq) < ($5, $6)`
	)
	q, has := pgdb.Querier{DB: r.db}, 0
	of := func(n ...any) []any { return append([]any{r.cluster, slot}, n...) }
	first := of(before.epoch, int64(before.seq))
	if err := q.Row(ctx, between, append(first, after.epoch, int64(after.seq)), &has); err != nil || has != 1 {
		return nil, err
	}
	h := &sinks.Hole{Reason: fmt.Sprintf("batch %d of slot %d follows batch %d", after.seq, slot, before.seq),
		Before: map[change.StreamID]change.ResourceVersion{}, After: map[change.StreamID]change.ResourceVersion{}}
	var stream change.StreamID
	var version change.ResourceVersion
	add := func() error { h.Before[stream] = version; return nil }
	err := q.Rows(ctx, dropped, of(), []any{&stream, &version}, add)
	if err == nil {
		err = q.Rows(ctx, moved+`(b.epoch, b.seq) <= ($3, $4)`+order, first, []any{&stream, &version}, add)
	}
	next := of(after.epoch, int64(after.seq))
	if err == nil {
		err = q.Rows(ctx, moved+`(b.epoch, b.seq) >= ($3, $4)`+order, next, []any{&stream, &version}, func() error {
			if _, known := h.After[stream]; !known {
				h.After[stream] = version
			}
			return nil
		})
	}
	var record []byte
	explained := len(h.Records()) == 0
	if err == nil && !explained {
		err = q.Rows(ctx, gaps, next, []any{&record}, func() error {
			var c change.Control
			err := json.Unmarshal(record, &c)
			explained = explained || h.Explain(&c)
			return err
		})
	}
	if err != nil || explained {
		return nil, err
	}
	return h, nil
}

// looked is how far it was looked for holes in a slot: in what is new, and again in a part of all.
type looked struct{ fresh, again number }

func (s *Sink) lookedAt(slot int) *looked {
	l, _ := s.looked.LoadOrStore(slot, &looked{})
	return l.(*looked)
}

// look looks for a hole for a moment.
func (l *slotLog) look(ctx context.Context) (h *sinks.Hole, err error) {
	x, until := l.sink.lookedAt(l.slot), time.Now().Add(sinks.HoleTime)
	if x.fresh, h, err = l.reader.findHole(ctx, l.slot, x.fresh, until); err == nil && h == nil && time.Now().Before(until) {
		if x.again, h, err = l.reader.findHole(ctx, l.slot, x.again, until); x.again == x.fresh {
			x.again = number{}
		}
	}
	return h, l.sink.db.Fail("look for holes in the log", err)
}

// Hole implements sinks.HoleFinder.
func (r *Reader) Hole(ctx context.Context) (h *sinks.Hole, err error) {
	var slots []int
	var slot int
	err = pgdb.Querier{DB: r.db}.Rows(ctx, `select slot from kubecdc_log.slots where cluster = $1`, []any{r.cluster}, []any{&slot}, func() error {
		slots = append(slots, slot)
		return nil
	})
	for _, slot := range slots {
		if err == nil && h == nil {
			_, h, err = r.findHole(ctx, slot, number{}, time.Time{})
		}
	}
	return h, r.db.Fail("look for holes in the log", err)
}
