package tables

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func (s *Store) Redacted(ctx context.Context) (map[change.StreamID]string, error) {
	all := map[change.StreamID]string{}
	var stream change.StreamID
	var rules string
	err := s.rows(ctx, `select name, redacted from kubecdc.streams where cluster = $1`, []any{s.Cluster()},
		[]any{&stream, &rules},
		func() error {
			all[stream] = rules
			return nil
		})
	return all, s.db.Fail("read what was kept of objects", err)
}

// Redact rewrites page by page.
func (s *Store) Redact(ctx context.Context, slot int, epoch int64, streams []checkpoint.Redaction) error {
	for i := range streams {
		if err := s.redact(ctx, slot, epoch, &streams[i]); err != nil {
			return s.db.Fail("rewrite what is kept of stream "+string(streams[i].Stream), err)
		}
	}
	return nil
}

func (s *Store) redact(ctx context.Context, slot int, epoch int64, r *checkpoint.Redaction) error {
	for after, more := "", r.Rewrite != nil; more; {
		err := s.Owned(ctx, slot, epoch, func(t *Tx) (err error) {
			after, more, err = s.redactPage(t, r, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.Owned(ctx, slot, epoch, func(t *Tx) error {
		const record = `insert into kubecdc.streams (cluster, name, redacted) values ($1, $2, $3)
			on conflict (cluster, name) do update set redacted = excluded.redacted`
		_, err := t.Do(record, t.Cluster, r.Stream, r.Rules)
		return err
	})
}

// redactedBodies is how many bodies Redact holds at a time.
const redactedBodies = 100

func (s *Store) redactPage(t *Tx, r *checkpoint.Redaction, after string) (last string, more bool, err error) {
	id, err := t.Stream(r.Stream)
	if err != nil {
		return "", false, err
	}
	n := 0
	var keys []string
	var bodies []checkpoint.Body
	var base, delta []byte
	err = t.Rows(t.Ctx, s.BodyPage, []any{id, after, redactedBodies}, []any{&last, &base, &delta}, func() error {
		n++
		if now, changed := r.Rewritten(last, Stored(base, delta)); changed {
			keys, bodies = append(keys, last), append(bodies, now)
		}
		return nil
	})
	if err == nil && len(keys) > 0 {
		err = s.Rebase(t, id, keys, bodies)
	}
	return last, n == redactedBodies, err
}

// Stored returns a body as the tables have it.
func Stored(base, delta []byte) checkpoint.Body {
	if len(delta) == 0 {
		delta = nil
	}
	return checkpoint.Body{Base: base, Delta: delta}
}
