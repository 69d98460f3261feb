package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

const (
	spanFor     = 30 * time.Second // shorter than the time without a position after which a stream counts as not read (query)
	spanBatches = 20               // fewer batches are read as fast
)

// span is a row of log_spans. Its batch is the last one of the span, with the positions of all.
type span struct {
	batch
	first, batches, earliest int64
	moved                    map[int64]storedPosition // while it is written, with the time in ago
	began                    int64
}

// span adds a batch to the current span. The span ends before a batch that is too late, or has control records. l.forget drops
// it.
func (l *slotLog) span(t *tx, b batch, positions []storedPosition, plain bool) (err error) {
	s := &l.spanned
	plain = plain && !slices.ContainsFunc(positions, func(p storedPosition) bool { return p.version == "" || p.ended != "" })
	if s.batches > 0 && (!plain || b.written-s.began >= spanFor.Milliseconds()) {
		if s.batches >= spanBatches {
			err = s.write(t)
		}
		*s = span{}
	}
	if err != nil || !plain {
		return err
	}
	if s.batches == 0 {
		*s = span{first: b.id, began: b.written, earliest: b.written, moved: map[int64]storedPosition{}}
	}
	s.batch, s.batches = b, s.batches+1
	for _, p := range positions {
		p.ago = b.written - p.ago
		s.earliest, s.moved[p.stream] = min(s.earliest, p.ago), p
	}
	return nil
}

func (s *span) write(t *tx) error {
	all := slices.AppendSeq([]storedPosition{}, maps.Values(s.moved)) // an array, even if it is empty
	for i := range all {
		all[i].ago, all[i].marked = s.written-all[i].ago, 0
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = t.do(`insert into log_spans values (?, ?, ?, ?, ?, ?)`, s.first, s.id, s.slot, s.batches, s.earliest, string(text))
	}
	return err
}

// spansAtOnce is how many spans are read at once.
const spansAtOnce = 500

// spans reads the spans of the cluster's slots, starting with a batch.
func (c *controls) spans(ctx context.Context, from int64) (all []span, err error) {
	const query = `select b.id, b.slot, b.epoch, b.seq, b.written, b.changes, s.positions, s.first, s.batches, s.earliest
		from log_spans s join log_batches b on b.id = s.last
		where s.slot in (select value from json_each(?)) and s.first >= ? order by s.first limit ?`
	err = each(ctx, c.db, query, []any{list(slices.Collect(maps.Keys(c.numbers))), from, spansAtOnce},
		func(rows *sql.Rows) error {
			var s span
			err := rows.Scan(&s.id, &s.slot, &s.epoch, &s.seq, &s.written, &s.changes, &s.positions, &s.first, &s.batches,
				&s.earliest)
			all = append(all, s)
			return err
		})
	return all, err
}
