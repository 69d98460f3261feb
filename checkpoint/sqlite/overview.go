package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func (t *transaction) keepControls(controls []change.Control) error {
	const keep = `insert into last_controls (stream, type, control) values (?, ?, ?)
		on conflict (stream, type) do update set control = excluded.control`
	for i := range controls {
		c := &controls[i]
		id, err := t.stream(c.Stream)
		if err != nil {
			return err
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if _, err := t.exec(keep, id, c.Type, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// SlotOwners gives who owns each slot.
func (s *Store) SlotOwners(ctx context.Context) (owners []checkpoint.SlotOwner, err error) {
	const op = "see who owns the slots"
	var slots int
	if err = s.bound(); err == nil {
		err = s.db.QueryRowContext(ctx, lookSlots, s.cluster.Load()).Scan(&slots)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail(op, err)
	}
	for n := range slots {
		owners = append(owners, checkpoint.SlotOwner{Slot: n})
	}
	const look = `select slot, owner, lease_until, epoch, seq,
			coalesce((select max(time) from checkpoints c where c.cluster = s.cluster and c.slot = s.slot), 0)
		from slots s where cluster = ? and slot < ?`
	err = s.each(ctx, look, func(scan func(...any) error) error {
		var o checkpoint.SlotOwner
		var until, last int64
		if err := scan(&o.Slot, &o.Owner, &until, &o.Epoch, &o.Seq, &last); err != nil {
			return err
		}
		o.Until = time.UnixMicro(until).UTC()
		o.Held = o.Until.After(time.Now())
		if last > 0 {
			o.Time = time.UnixMicro(last).UTC()
		}
		owners[o.Slot] = o
		return nil
	}, s.cluster.Load(), slots)
	return owners, s.fail(op, err)
}

// Clock gives this machine's time, since the file is here.
func (s *Store) Clock(context.Context) (time.Time, error) { return time.Now(), nil }

// LastControls gives the last control records of each stream.
func (s *Store) LastControls(ctx context.Context) (all []change.Control, err error) {
	const look = `select control from last_controls join streams s on s.id = stream where cluster = ? order by s.name, type`
	err = s.each(ctx, look, func(scan func(...any) error) error {
		var text []byte
		var c change.Control
		err := scan(&text)
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		all = append(all, c)
		return err
	}, s.cluster.Load())
	return all, s.fail("read the last control records", err)
}
