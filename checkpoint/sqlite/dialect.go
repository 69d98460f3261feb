package sqlite

import (
	"context"
	"encoding/json"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
)

var dialect = tables.Dialect{
	Acquire: `insert into slots as s (cluster, slot, epoch, owner, lease_until)
		select $1, $2, 1, $3, clock_timestamp() + $4 where $5 in (0, (select slots from layouts where cluster = $1))
		on conflict (cluster, slot) do update set epoch = s.epoch + 1, owner = excluded.owner, lease_until = excluded.lease_until
			where s.owner = excluded.owner or s.lease_until <= clock_timestamp()
		returning epoch, seq, offsets, pages is not null`,
	Inventory: `select key, uid, resource_version from inventory
		where stream = (select id from streams where cluster = $1 and name = $2) and key > $3 order by key limit $4`,
	BodyPage: `select i.key, b.base, i.delta from inventory i left join bases b on b.id = i.id
		where i.stream = $1 and i.key > $2 and i.delta is not null order by i.key limit $3`,
	// SQLite takes the value from the row with the maximum.
	PositionsAt: `select value from (select p.key, p.value, max(c.second) from checkpoints c, json_each(c.positions) p
		where c.cluster = $1 and c.slot = $2 and c.seq <= $3 group by p.key) order by key`,
	Selected: `select slot, selected from slots where cluster = $1`,
	Second:   `clock_timestamp() / 1000000`,
	Rebase:   rebase,
	Offsets: func(o change.Offsets) json.RawMessage {
		text, _ := json.Marshal(change.Offsets{}.Merge(o)) // can't fail: strings and numbers only
		return text
	},
	Parse: func(text []byte) (o change.Offsets, err error) { return o, json.Unmarshal(text, &o) },
}

// rebase first records that the file must be rewritten.
func rebase(t *tables.Tx, stream int64, keys []string, bodies []checkpoint.Body) error {
	if _, err := t.Do(setUnclean); err != nil {
		return err
	}
	for i, key := range keys {
		_, err := t.Do(`update inventory set delta = $3 where stream = $1 and key = $2`, stream, key, delta(bodies[i]))
		switch {
		case err != nil:
		case bodies[i].Base != nil:
			_, err = t.Do(setBase, stream, key, bodies[i].Base)
		case bodies[i].IsZero():
			_, err = t.Do(forgetBase, stream, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Redact rewrites page by page. SQLite leaves overwritten and deleted content in free parts of the file, and in its write-ahead
// log. So Redact rewrites the file if there were bodies.
func (s *Store) Redact(ctx context.Context, slot int, epoch int64, streams []checkpoint.Redaction) error {
	if err := s.Store.Redact(ctx, slot, epoch, streams); err != nil {
		return err
	}
	// No lease can be renewed meanwhile, so the session may end. The rewriting goes on.
	return s.file.Fail("rewrite the file without redacted values", s.scrub(context.WithoutCancel(ctx)))
}

// PRAGMA user_version is 1 while the file must be rewritten.
const (
	setUnclean = `pragma user_version = 1`
	setClean   = `pragma user_version = 0`
)

// scrub rewrites the file if user_version demands it.
func (s *Store) scrub(ctx context.Context) error {
	var unclean int
	if err := s.db.QueryRowContext(ctx, `pragma user_version`).Scan(&unclean); err != nil || unclean == 0 {
		return err
	}
	if err := s.file.EmptyLog(ctx); err != nil { // before VACUUM writes all to it in vain
		return err
	}
	if _, err := s.db.ExecContext(ctx, `vacuum`); err != nil {
		return err
	}
	if err := s.file.EmptyLog(ctx); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, setClean)
	return err
}
