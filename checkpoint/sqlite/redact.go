package sqlite

import (
	"context"

	"kubecdc/change"
	"kubecdc/checkpoint"
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
	for _, o := range objects {
		if err := r.rewrite(t, o); err != nil {
			return "", false, err
		}
	}
	return objects[len(objects)-1].Key, len(objects) == redactPage, nil
}

func (r *redaction) rewrite(t *transaction, o checkpoint.Object) error {
	const set = `update inventory set delta = ?3 where stream = ?1 and key = ?2`
	now, changed := r.Rewritten(o.Key, o.Body)
	if !changed {
		return nil
	}
	id, err := t.stream(r.Stream)
	if err == nil {
		_, err = t.exec(set, id, o.Key, delta(now))
	}
	if err == nil && now.Base != nil {
		_, err = t.exec(setBase, id, o.Key, now.Base)
	}
	return err
}

// read gives the objects of one page, with their bodies.
func (r *redaction) read(t *transaction, after string) (page []checkpoint.Object, err error) {
	const look = `select i.key, b.base, i.delta from inventory i left join bases b on b.id = i.id
		where i.stream = (select id from streams where cluster = ? and name = ?) and i.key > ? and i.delta is not null
		order by i.key limit ?`
	rows, err := t.QueryContext(t.ctx, look, t.cluster, r.Stream, after, redactPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o checkpoint.Object
		var base, delta []byte
		if err := rows.Scan(&o.Key, &base, &delta); err != nil {
			return nil, err
		}
		o.Body = stored(base, delta)
		page = append(page, o)
	}
	return page, rows.Err()
}
