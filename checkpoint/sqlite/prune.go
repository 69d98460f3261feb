package sqlite

import (
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint/internal/tables"
)

// Prune drops the rows that are older than the age, except the newest of each slot, and makes each slot's oldest remaining row
// complete. It also drops signals that ended before that age. If a reader has prevented Redact from rewriting the file, Prune
// rewrites it.
func (s *Store) Prune(ctx context.Context, age time.Duration) error {
	err := s.InTx(ctx, func(t *tables.Tx) error {
		const query = `select slot, coalesce(min(second) filter (where time > $2), max(second))
			from checkpoints where cluster = $1 group by slot`
		const signals = `delete from signals where cluster = $1 and answered < $2 and not`
		until := time.Now().Add(-age)
		oldest := map[int]int64{} // by slot, the second of the oldest remaining row
		var slot int
		var second int64
		err := t.Rows(ctx, query, []any{t.Cluster, until}, []any{&slot, &second}, func() error {
			oldest[slot] = second
			return nil
		})
		if err != nil {
			return err
		}
		for slot, second := range oldest {
			if err := prune(t, slot, second); err != nil {
				return err
			}
		}
		_, err = t.Do(signals+tables.IsOpen, t.Cluster, until)
		return err
	})
	if err == nil {
		err = s.scrub(context.WithoutCancel(ctx))
	}
	return s.file.Fail("prune the history", err)
}

// prune drops the rows of a slot that are older than the second.
func prune(t *tables.Tx, slot int, oldest int64) error {
	const query = `select offsets from checkpoints where cluster = $1 and slot = $2 and second <= $3 and second >= (
		select max(second) from checkpoints where cluster = $1 and slot = $2 and complete and second <= $3) order by second`
	const complete = `update checkpoints set offsets = $4, complete = true where cluster = $1 and slot = $2 and second = $3`
	const forget = `delete from checkpoints where cluster = $1 and slot = $2 and second < $3`
	var all change.Offsets
	var text []byte
	err := t.Rows(t.Ctx, query, []any{t.Cluster, slot, oldest}, []any{&text}, func() error {
		offsets, err := dialect.Parse(text)
		all = all.Merge(offsets)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := t.Do(complete, t.Cluster, slot, oldest, dialect.Offsets(all)); err != nil {
		return err
	}
	_, err = t.Do(forget, t.Cluster, slot, oldest)
	return err
}

// Size returns the size of the file in bytes, without the write-ahead log.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	const query = `select page_count * page_size from pragma_page_count(), pragma_page_size()`
	err = s.db.QueryRowContext(ctx, query).Scan(&bytes)
	return bytes, s.file.Fail("measure the file", err)
}
