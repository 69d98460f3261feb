package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// keepControls stores the control records of a commit before the commit itself, since most commits have none and need one
// statement only.
func (s *Store) keepControls(ctx context.Context, c checkpoint.Commit) error {
	if len(c.Controls) == 0 {
		return nil
	}
	const keep = `insert into kubecdc.last_controls (stream, type, control) values ($1, $2, $3)
		on conflict (stream, type) do update set control = excluded.control`
	names := make([]change.StreamID, len(c.Controls))
	for i := range c.Controls {
		names[i] = c.Controls[i].Stream
	}
	err := s.bound()
	var ids map[change.StreamID]int32
	if err == nil {
		ids, err = s.streamIDs(ctx, names)
	}
	if err == nil {
		err = s.owned(ctx, c.Slot, c.Epoch, func(tx pgx.Tx) error {
			for i := range c.Controls {
				text, err := json.Marshal(&c.Controls[i])
				if err == nil {
					_, err = tx.Exec(ctx, keep, ids[names[i]], c.Controls[i].Type, text)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.db.Fail(fmt.Sprintf("keep %d control records of slot %d", len(c.Controls), c.Slot), err)
}

// SlotOwners gives who owns each slot.
func (s *Store) SlotOwners(ctx context.Context) ([]checkpoint.SlotOwner, error) {
	owners, err := s.slotOwners(ctx)
	return owners, s.db.Fail("see who owns the slots", err)
}

func (s *Store) slotOwners(ctx context.Context) (owners []checkpoint.SlotOwner, err error) {
	if err := s.bound(); err != nil {
		return nil, err
	}
	var slots int
	err = s.db.QueryRow(ctx, lookSlots, s.cluster.Load()).Scan(&slots)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const look = `select n, coalesce(owner, ''), coalesce(lease_until > clock_timestamp(), false), lease_until, coalesce(epoch, 0),
			coalesce(seq, 0), (select max(time) from kubecdc.checkpoints c where c.cluster = $1 and c.slot = n)
		from generate_series(0, $2::int - 1) n left join kubecdc.slots s on s.cluster = $1 and s.slot = n order by n`
	rows, err := s.db.Query(ctx, look, s.cluster.Load(), slots)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o checkpoint.SlotOwner, err error) {
		var until, last *time.Time
		err = row.Scan(&o.Slot, &o.Owner, &o.Held, &until, &o.Epoch, &o.Seq, &last)
		if until != nil {
			o.Until = until.UTC()
		}
		if last != nil {
			o.Time = last.UTC()
		}
		return o, err
	})
}

// Clock gives the database's time.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.db.QueryRow(ctx, `select clock_timestamp()`).Scan(&now)
	return now, s.db.Fail("read the clock", err)
}

// LastControls gives the last control records of each stream.
func (s *Store) LastControls(ctx context.Context) (all []change.Control, err error) {
	const op = "read the last control records"
	if err := s.bound(); err != nil {
		return nil, s.db.Fail(op, err)
	}
	const look = `select control from kubecdc.last_controls join kubecdc.streams s on s.id = stream where cluster = $1
		order by s.name collate "C", type`
	rows, err := s.db.Query(ctx, look, s.cluster.Load())
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c change.Control, err error) {
			var text []byte
			if err = row.Scan(&text); err == nil {
				err = json.Unmarshal(text, &c)
			}
			return c, err
		})
	}
	return all, s.db.Fail(op, err)
}
