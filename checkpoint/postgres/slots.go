package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
)

// acquireSlot is one statement, so that of two owners who come at once only one gets the slot: see acquire_slot in the
// migrations.
const acquireSlot = `select epoch, seq, offsets, is_new from kubecdc.acquire_slot($1, $2, $3, $4, $5)`

// Acquire takes the slot under a new epoch, unless another owner's lease runs.
func (s *Store) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (checkpoint.SlotState, error) {
	op := fmt.Sprintf("acquire slot %d", slot)
	if err := s.bound(); err != nil {
		return checkpoint.SlotState{}, s.db.Fail(op, err)
	}
	var state checkpoint.SlotState
	var offsets flatOffsets
	s.streams.Clear() // a database that was restored may number them otherwise
	err := s.db.QueryRow(ctx, acquireSlot, s.cluster.Load(), slot, owner, ttl, s.slots.Load()).
		Scan(&state.Epoch, &state.Seq, &offsets, &state.New)
	if errors.Is(err, pgx.ErrNoRows) {
		return checkpoint.SlotState{}, s.refused(ctx, slot)
	}
	if err != nil {
		return checkpoint.SlotState{}, s.db.Fail(op, err)
	}
	state.Offsets, err = offsets.nested()
	return state, s.db.Fail(op, err)
}

// refused says why the slot could not be taken.
func (s *Store) refused(ctx context.Context, slot int) error {
	if err := s.sameLayout(ctx); err != nil {
		return err
	}
	e := &checkpoint.HeldError{Slot: slot}
	const look = `select owner, lease_until from kubecdc.slots where cluster = $1 and slot = $2`
	if err := s.db.QueryRow(ctx, look, s.cluster.Load(), slot).Scan(&e.Owner, &e.Until); err != nil {
		return s.db.Fail(fmt.Sprintf("see who holds slot %d", slot), err)
	}
	return e
}

// Renew extends the lease from now on.
func (s *Store) Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error {
	return s.lease(ctx, "renew the lease of", slot, epoch, ttl)
}

// Release ends the lease at once.
func (s *Store) Release(ctx context.Context, slot int, epoch int64) error {
	return s.lease(ctx, "release", slot, epoch, 0)
}

func (s *Store) lease(ctx context.Context, verb string, slot int, epoch int64, ttl time.Duration) error {
	const set = `update kubecdc.slots set lease_until = clock_timestamp() + $4::interval
		where cluster = $1 and slot = $2 and epoch = $3`
	tag, err := s.db.Exec(ctx, set, s.cluster.Load(), slot, epoch, ttl)
	if err == nil && tag.RowsAffected() == 0 {
		err = s.notOwned(ctx, slot, epoch)
	}
	return s.db.Fail(fmt.Sprintf("%s slot %d", verb, slot), err)
}
