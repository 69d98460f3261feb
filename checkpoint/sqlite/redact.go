package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/pack"
)

// HashKey keeps the first key.
func (s *Store) HashKey(ctx context.Context, offered []byte) (key []byte, err error) {
	const note = `update clusters set hash_key = coalesce(hash_key, ?2) where id = ?1 returning hash_key`
	if err = s.bound(); err == nil {
		err = s.db.QueryRowContext(ctx, note, s.cluster.Load(), offered).Scan(&key)
	}
	return key, s.fail("read the key of hashes", err)
}

// Redacted gives the rules noted.
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

// Redact rewrites page by page. SQLite leaves what was overwritten or deleted in free parts of the file, and in the log
// beside it: so the file is written anew where there were bodies.
func (s *Store) Redact(ctx context.Context, slot int, epoch int64, streams []checkpoint.Redaction) error {
	for _, r := range streams {
		t := &redaction{Redaction: r, store: s, slot: slot, epoch: epoch}
		err := t.run(ctx)
		if errors.Is(err, checkpoint.ErrFenced) {
			return err
		}
		if err != nil {
			return s.fail("rewrite what is kept of stream "+string(r.Stream), err)
		}
	}
	// Nothing else can be done in the file meanwhile, so a lease may run out and the session end: not this.
	return s.fail("write the file anew, without what may not be kept", s.scrub(context.WithoutCancel(ctx)))
}

// PRAGMA user_version is 1 while the file is to be written anew.
const (
	setUnclean = `pragma user_version = 1`
	setClean   = `pragma user_version = 0`
)

// scrub writes the file anew if that is wanted.
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
	if err := r.store.bound(); err != nil {
		return err
	}
	for after, more := "", r.Rewrite != nil; more; {
		err := r.own(ctx, func(tx *sql.Tx) (err error) {
			after, more, err = r.page(ctx, tx, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.own(ctx, func(tx *sql.Tx) error {
		const note = `insert into streams (cluster, name, redacted) values (?, ?, ?) on conflict do update set redacted = excluded.redacted`
		_, err := tx.ExecContext(ctx, note, r.store.cluster.Load(), r.Stream, r.Rules)
		return err
	})
}

// own runs a transaction in which the slot has no other owner.
func (r *redaction) own(ctx context.Context, do func(*sql.Tx) error) error {
	return r.store.inTx(ctx, func(tx *sql.Tx) error {
		if err := own(ctx, tx, r.store.cluster.Load(), r.slot, r.epoch, 0); err != nil {
			return err
		}
		return do(tx)
	})
}

// redactPage is how many bodies are held at a time.
const redactPage = 100

func (r *redaction) page(ctx context.Context, tx *sql.Tx, after string) (last string, more bool, err error) {
	objects, err := r.read(ctx, tx, after)
	if err != nil || len(objects) == 0 {
		return "", false, err
	}
	if _, err := tx.ExecContext(ctx, setUnclean); err != nil {
		return "", false, err
	}
	const set = `update inventory set body = ? where key = ? and stream = (select id from streams where cluster = ? and name = ?)`
	for _, o := range objects {
		var now any
		if body := r.rewritten(o); body != nil {
			now = body
		}
		if _, err := tx.ExecContext(ctx, set, now, o.Key, r.store.cluster.Load(), r.Stream); err != nil {
			return "", false, err
		}
	}
	return objects[len(objects)-1].Key, len(objects) == redactPage, nil
}

// read gives the objects of one page, their bodies packed.
func (r *redaction) read(ctx context.Context, tx *sql.Tx, after string) (page []checkpoint.Object, err error) {
	const look = `select key, body from inventory where stream = (select id from streams where cluster = ? and name = ?)
		and key > ? and body is not null order by key limit ?`
	rows, err := tx.QueryContext(ctx, look, r.store.cluster.Load(), r.Stream, after, redactPage)
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

// rewritten is the packed body that is to stand there; nil, which is a null, where there is to be none.
func (r *redaction) rewritten(o checkpoint.Object) []byte {
	body, err := pack.Unpack(o.Body)
	if err != nil {
		return nil // it can't be rewritten, only forgotten
	}
	now := r.Rewrite(o.Key, body)
	if now == nil {
		return nil
	}
	return pack.Append(nil, now)
}
