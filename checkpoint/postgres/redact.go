package postgres

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/pack"
)

// HashKey keeps the first key.
func (s *Store) HashKey(ctx context.Context, offered []byte) (key []byte, err error) {
	const note = `update kubecdc.clusters set hash_key = coalesce(hash_key, $2) where id = $1 returning hash_key`
	if err = s.bound(); err == nil {
		err = s.db.QueryRow(ctx, note, s.cluster.Load(), offered).Scan(&key)
	}
	return key, s.db.Fail("read the key of hashes", err)
}

// Redacted gives the rules noted.
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
		t := &redaction{store: s, slot: slot, epoch: epoch, Redaction: r}
		err := t.run(ctx)
		if t.fenced {
			return checkpoint.ErrFenced
		}
		if err != nil {
			return s.db.Fail("rewrite what is kept of stream "+string(r.Stream), err)
		}
	}
	return nil
}

type redaction struct {
	checkpoint.Redaction
	store  *Store
	slot   int
	epoch  int64
	id     int32
	fenced bool
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
	for after, more := "", r.Rewrite != nil; more && err == nil && !r.fenced; {
		err = r.own(ctx, func(tx pgx.Tx) error {
			after, more, err = r.page(ctx, tx, after)
			return err
		})
	}
	if err != nil || r.fenced {
		return err
	}
	return r.own(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update kubecdc.streams set redacted = $2 where id = $1`, r.id, r.Rules)
		return err
	})
}

// own runs a transaction in which the slot has no other owner.
func (r *redaction) own(ctx context.Context, do func(pgx.Tx) error) error {
	owned, err := r.store.own(ctx, r.slot, r.epoch, do)
	r.fenced = err == nil && !owned
	return err
}

// redactPage is how many bodies are held at a time.
const redactPage = 100

func (r *redaction) page(ctx context.Context, tx pgx.Tx, after string) (last string, more bool, err error) {
	const look = `select key, body from kubecdc.inventory where stream = $1 and key > $2 and body is not null order by key limit $3`
	rows, err := tx.Query(ctx, look, r.id, after, redactPage)
	if err != nil {
		return "", false, err
	}
	n := 0
	var keys []string
	var bodies [][]byte
	var packed []byte
	_, err = pgx.ForEachRow(rows, []any{&last, &packed}, func() error {
		n++
		body, err := pack.Unpack(packed)
		var now []byte
		if err == nil { // else it can't be rewritten, only forgotten
			now = r.Rewrite(last, body)
		}
		switch {
		case now == nil:
			keys, bodies = append(keys, last), append(bodies, nil)
		case !bytes.Equal(now, body):
			keys, bodies = append(keys, last), append(bodies, pack.Append(nil, now))
		}
		return nil
	})
	if err == nil && len(keys) > 0 {
		const set = `update kubecdc.inventory i set body = n.body from unnest($2::text[], $3::bytea[]) n (key, body) where i.stream = $1 and i.key = n.key`
		_, err = tx.Exec(ctx, set, r.id, keys, bodies)
	}
	return last, n == redactPage, err
}
