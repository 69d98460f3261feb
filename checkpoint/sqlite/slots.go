package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
)

const acquireSlot = `
insert into slots as s (cluster, slot, epoch, owner, lease_until) values (?1, ?2, 1, ?3, ?4)
on conflict (cluster, slot) do update set epoch = s.epoch + 1, owner = excluded.owner, lease_until = excluded.lease_until
  where s.owner = excluded.owner or s.lease_until <= ?5
returning epoch, seq, offsets, pages is not null`

// Acquire takes the slot under a new epoch, unless another owner's lease runs.
func (s *Store) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (checkpoint.SlotState, error) {
	state, err := s.acquire(ctx, slot, owner, ttl)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoint.SlotState{}, s.held(ctx, slot)
	}
	var other *checkpoint.LayoutError
	if errors.As(err, &other) {
		return checkpoint.SlotState{}, err
	}
	return state, s.fail(fmt.Sprintf("acquire slot %d", slot), err)
}

func (s *Store) acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (state checkpoint.SlotState, err error) {
	if err := s.sameLayout(ctx); err != nil {
		return state, err
	}
	now := time.Now()
	var offsets []byte
	row := s.db.QueryRowContext(ctx, acquireSlot, s.cluster.Load(), slot, owner, now.Add(ttl).UnixMicro(), now.UnixMicro())
	if err = row.Scan(&state.Epoch, &state.Seq, &offsets, &state.New); err == nil {
		err = json.Unmarshal(offsets, &state.Offsets)
	}
	return state, err
}

// held says who has the slot.
func (s *Store) held(ctx context.Context, slot int) error {
	const look = `select owner, lease_until from slots where cluster = ? and slot = ?`
	e := &checkpoint.HeldError{Slot: slot}
	var until int64
	if err := s.db.QueryRowContext(ctx, look, s.cluster.Load(), slot).Scan(&e.Owner, &until); err != nil {
		return s.fail(fmt.Sprintf("see who holds slot %d", slot), err)
	}
	e.Until = time.UnixMicro(until)
	return e
}

// Renew extends the lease from now on.
func (s *Store) Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error {
	return s.lease(ctx, "renew the lease of", slot, epoch, time.Now().Add(ttl))
}

// Release ends the lease at once.
func (s *Store) Release(ctx context.Context, slot int, epoch int64) error {
	return s.lease(ctx, "release", slot, epoch, time.Now())
}

func (s *Store) lease(ctx context.Context, verb string, slot int, epoch int64, until time.Time) error {
	const set = `update slots set lease_until = ? where cluster = ? and slot = ? and epoch = ?`
	result, err := s.db.ExecContext(ctx, set, until.UnixMicro(), s.cluster.Load(), slot, epoch)
	if err == nil && changed(result) == 0 {
		err = notOwned(ctx, s.db, s.cluster.Load(), slot, epoch)
	}
	return s.fail(fmt.Sprintf("%s slot %d", verb, slot), err)
}

// changed is how many rows a statement has changed.
func changed(r sql.Result) int64 {
	n, _ := r.RowsAffected() // this driver always knows
	return n
}
