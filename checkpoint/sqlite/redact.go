package sqlite

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/compress"
)

// Redacted gives the rules that were noted last, by stream.
func (s *Store) Redacted(ctx context.Context) (map[change.StreamID]string, error) {
	rules, err := s.redacted(ctx)
	return rules, s.fail("read what was kept of objects", err)
}

func (s *Store) redacted(ctx context.Context) (map[change.StreamID]string, error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `select name, redacted from streams where cluster = ?`, s.cluster.Load())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[change.StreamID]string{}
	for rows.Next() {
		var stream change.StreamID
		var rules string
		if err := rows.Scan(&stream, &rules); err != nil {
			return nil, err
		}
		all[stream] = rules
	}
	return all, rows.Err()
}

// Redact rewrites page by page. SQLite leaves what was overwritten or deleted in free parts of the file, and in the log beside
// it: so Redact writes the file anew if there were bodies.
func (s *Store) Redact(ctx context.Context, slot int, epoch int64, streams []checkpoint.Redaction) error {
	for _, r := range streams {
		if err := (&redaction{Redaction: r, store: s, slot: slot, epoch: epoch}).run(ctx); err != nil {
			return s.fail("rewrite what is kept of stream "+string(r.Stream), err)
		}
	}
	// No lease can be renewed meanwhile, so the session may end; the writing goes on all the same.
	return s.fail("write the file anew, without what may not be kept", s.scrub(context.WithoutCancel(ctx)))
}

// PRAGMA user_version is 1 while the file is to be written anew.
const (
	setUnclean = `pragma user_version = 1`
	setClean   = `pragma user_version = 0`
)

// scrub writes the file anew if user_version says so.
func (s *Store) scrub(ctx context.Context) error {
	var unclean int
	if err := s.db.QueryRowContext(ctx, `pragma user_version`).Scan(&unclean); err != nil || unclean == 0 {
		return err
	}
	for _, statement := range []string{`vacuum`, `pragma wal_checkpoint(truncate)`, setClean} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

type redaction struct {
	checkpoint.Redaction
	store *Store
	slot  int
	epoch int64
}

func (r *redaction) run(ctx context.Context) error {
	for after, more := "", r.Rewrite != nil; more; {
		err := r.store.owned(ctx, r.slot, r.epoch, func(t *transaction) (err error) {
			after, more, err = r.page(t, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.store.owned(ctx, r.slot, r.epoch, func(t *transaction) error {
		const note = `insert into streams (cluster, name, redacted) values (?, ?, ?)
			on conflict do update set redacted = excluded.redacted`
		_, err := t.exec(note, t.cluster, r.Stream, r.Rules)
		return err
	})
}

// redactPage is how many bodies Redact holds at a time.
const redactPage = 100

func (r *redaction) page(t *transaction, after string) (last string, more bool, err error) {
	objects, err := r.read(t, after)
	if err != nil || len(objects) == 0 {
		return "", false, err
	}
	if _, err := t.exec(setUnclean); err != nil {
		return "", false, err
	}
	const set = `update inventory set body = ? where key = ? and stream = (select id from streams where cluster = ? and name = ?)`
	for _, o := range objects {
		var now any
		if body := r.rewritten(o); body != nil {
			now = body
		}
		if _, err := t.exec(set, now, o.Key, t.cluster, r.Stream); err != nil {
			return "", false, err
		}
	}
	return objects[len(objects)-1].Key, len(objects) == redactPage, nil
}

// read gives the objects of one page, their bodies compressed.
func (r *redaction) read(t *transaction, after string) (page []checkpoint.Object, err error) {
	const look = `select key, body from inventory where stream = (select id from streams where cluster = ? and name = ?)
		and key > ? and body is not null order by key limit ?`
	rows, err := t.QueryContext(t.ctx, look, t.cluster, r.Stream, after, redactPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o checkpoint.Object
		if err := rows.Scan(&o.Key, &o.Body); err != nil {
			return nil, err
		}
		page = append(page, o)
	}
	return page, rows.Err()
}

// rewritten gives the new body, compressed; nil drops it.
func (r *redaction) rewritten(o checkpoint.Object) []byte {
	body, err := compress.Decode(nil, o.Body)
	if err != nil {
		return nil // it can't be rewritten, only dropped
	}
	now := r.Rewrite(o.Key, body)
	if now == nil {
		return nil
	}
	return compress.Append(nil, now)
}
