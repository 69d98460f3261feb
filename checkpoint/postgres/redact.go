package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// Redacted gives the rules that were noted last, by stream.
func (s *Store) Redacted(ctx context.Context) (map[change.StreamID]string, error) {
	rules, err := s.redacted(ctx)
	return rules, s.db.Fail("read what was kept of objects", err)
}

func (s *Store) redacted(ctx context.Context) (map[change.StreamID]string, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, `select name, redacted from kubecdc.streams where cluster = $1`, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	all := map[change.StreamID]string{}
	var stream change.StreamID
	var rules string
	_, err = pgx.ForEachRow(rows, []any{&stream, &rules}, func() error { all[stream] = rules; return nil })
	return all, err
}

// Redact rewrites page by page.
func (s *Store) Redact(ctx context.Context, slot int, epoch int64, streams []checkpoint.Redaction) error {
	for _, r := range streams {
		if err := (&redaction{Redaction: r, store: s, slot: slot, epoch: epoch}).run(ctx); err != nil {
			return s.db.Fail("rewrite what is kept of stream "+string(r.Stream), err)
		}
	}
	return nil
}

type redaction struct {
	checkpoint.Redaction
	store *Store
	slot  int
	epoch int64
	id    int32 // of the stream
}

func (r *redaction) run(ctx context.Context) error {
	if err := r.store.bound(); err != nil {
		return err
	}
	ids, err := r.store.streamIDs(ctx, []change.StreamID{r.Stream})
	if err != nil {
		return err
	}
	r.id = ids[r.Stream]
	for after, more := "", r.Rewrite != nil; more; {
		err := r.store.owned(ctx, r.slot, r.epoch, func(tx pgx.Tx) (err error) {
			after, more, err = r.page(ctx, tx, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.store.owned(ctx, r.slot, r.epoch, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update kubecdc.streams set redacted = $2 where id = $1`, r.id, r.Rules)
		return err
	})
}

// redactPage is how many bodies Redact holds at a time.
const redactPage = 100

func (r *redaction) page(ctx context.Context, tx pgx.Tx, after string) (last string, more bool, err error) {
	const look = `select key, body, delta from kubecdc.inventory
		where stream = $1 and key > $2 and (body is not null or delta is not null) order by key limit $3`
	rows, err := tx.Query(ctx, look, r.id, after, redactPage)
	if err != nil {
		return "", false, err
	}
	n := 0
	var keys []string
	var bodies [][]byte
	var stored checkpoint.Body
	_, err = pgx.ForEachRow(rows, []any{&last, &stored.Base, &stored.Delta}, func() error {
		n++
		if now, changed := r.Rewritten(pgdb.Unescape(last), stored); changed {
			keys, bodies = append(keys, last), append(bodies, now.Base)
		}
		return nil
	})
	if err == nil && len(keys) > 0 {
		const set = `update kubecdc.inventory i set body = n.body, delta = null
			from unnest($2::text[], $3::bytea[]) n (key, body) where i.stream = $1 and i.key = n.key`
		_, err = tx.Exec(ctx, set, r.id, keys, bodies)
	}
	return last, n == redactPage, err
}
