package sqlite

import (
	"context"
	"database/sql"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// controlsAtOnce is how many batches are read at once, with their control records.
const controlsAtOnce = 500

// Controls implements sinks.Reader. It makes the batch records from the rows of batches. If there are several slots, it visits
// no spans, since their spans would overlap.
func (r *Reader) Controls(ctx context.Context, since time.Time, inFull func(*sinks.Span) bool,
	visit func(*change.Control) error) error {
	var failed error // the error of visit
	c := &controls{Reader: r, names: streamNames{db: r.db}, visit: func(c *change.Control) error {
		failed = visit(c)
		return failed
	}}
	from, err := r.firstAfter(ctx, since.UnixMilli()-1)
	if err == nil {
		c.numbers, _, err = r.slots(ctx)
	}
	switch {
	case err != nil:
	case inFull == nil || len(c.numbers) != 1:
		err = c.inOrder(ctx, 0, from, 1<<62, c.one)
	default:
		err = c.outline(ctx, from, inFull)
	}
	if failed != nil {
		return failed
	}
	return r.fail("read the control records", err)
}

// controls reads control records.
type controls struct {
	*Reader
	numbers map[int64]int // the slots' numbers by id
	names   streamNames
	visit   func(*change.Control) error
}

// outline reads spans, and the batches between them. A span is only a summary of its batches: where it can't be read, they are
// read.
func (c *controls) outline(ctx context.Context, from int64, inFull func(*sinks.Span) bool) error {
	for next := from; ; {
		spans, err := c.spans(ctx, next)
		if err != nil || len(spans) == 0 {
			return c.inOrder(ctx, 0, from, 1<<62, c.one)
		}
		for i := range spans {
			s := &spans[i]
			if from < s.first {
				if err := c.inOrder(ctx, 0, from, s.first, c.one); err != nil {
					return err
				}
			}
			end, _, unreadable := c.end(ctx, &s.batch)
			from, next = s.first, s.first+1
			if unreadable != nil || inFull(&sinks.Span{Control: end, First: s.seq + 1 - uint64(s.batches),
				Earliest: time.UnixMilli(s.earliest)}) {
				continue
			}
			if from = s.id + s.changes + 1; c.visit(end) != nil {
				return nil
			}
		}
	}
}

// inOrder visits the batches of a slot, or of all slots if slot is 0, from one id up to, and without, another. No statement is
// open meanwhile.
func (r *Reader) inOrder(
	ctx context.Context, slot, from, to int64, visit func(context.Context, *batch, []*change.Control) error,
) error {
	for {
		all, err := batches(ctx, r.db, `where id >= ? and id < ? and ? in (0, slot) order by id limit ?`, from, to, slot,
			controlsAtOnce)
		if err != nil || len(all) == 0 {
			return err
		}
		records, err := r.controlsOf(ctx, from, all[len(all)-1].id)
		for i := range all {
			if err == nil {
				err = visit(ctx, &all[i], records[all[i].id])
			}
			from = all[i].id + 1
		}
		if err != nil {
			return err
		}
	}
}

// one visits the control records of a batch.
func (c *controls) one(ctx context.Context, b *batch, records []*change.Control) error {
	if _, ours := c.numbers[b.slot]; !ours {
		return nil
	}
	end, watermarks, err := c.end(ctx, b)
	for _, record := range append(append(records, watermarks...), end) {
		if err == nil {
			record.Cluster, record.Slot, record.Epoch, record.Batch = c.cluster, c.numbers[b.slot], b.epoch, b.seq
			err = c.visit(record)
		}
	}
	return err
}

// end makes the batch record and the watermarks.
func (c *controls) end(ctx context.Context, b *batch) (*change.Control, []*change.Control, error) {
	end := &change.Control{Type: change.ControlBatch, TimeMs: b.written, Cluster: c.cluster, Slot: c.numbers[b.slot],
		Epoch: b.epoch, Batch: b.seq,
		BatchEnd: change.BatchEnd{Changes: int(b.changes)}}
	positions, watermarks, err := c.names.positions(ctx, b)
	end.Positions = positions
	return end, watermarks, err
}

func (r *Reader) controlsOf(ctx context.Context, from, to int64) (map[int64][]*change.Control, error) {
	all := map[int64][]*change.Control{}
	const query = `select batch, record from log_controls where batch >= ? and batch <= ? order by batch, n`
	return all, each(ctx, r.db, query, []any{from, to}, func(rows *sql.Rows) error {
		var batch int64
		var text []byte
		if err := rows.Scan(&batch, &text); err != nil {
			return err
		}
		c := new(change.Control)
		all[batch] = append(all[batch], c)
		return c.UnmarshalJSON(text) // json.Unmarshal would check the text once more
	})
}
