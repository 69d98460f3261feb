package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

const selectSlots = `select slots from kubecdc.layouts where cluster = $1`

// Slots returns the number of slots. It records want if there is no number.
func (s *Store) Slots(ctx context.Context, want int) (have int, err error) {
	const record = `insert into kubecdc.layouts as l (cluster, slots) values ($1, $2)
		on conflict (cluster) do update set slots = l.slots returning slots`
	if err = s.row(ctx, record, []any{s.Cluster(), want}, &have); err != nil {
		return have, s.db.Fail("read the number of slots", err)
	}
	if have == want {
		s.Adopt(want)
	}
	return have, nil
}

// Adopt makes Acquire and Heartbeat demand this number of slots.
func (s *Store) Adopt(slots int) { s.slots.Store(int32(slots)) }

// SameLayout returns *checkpoint.LayoutError if the number of slots is not the adopted one.
func (s *Store) SameLayout(ctx context.Context) error {
	want, have := int(s.slots.Load()), 0
	if want == 0 {
		return s.Bound()
	}
	err := s.row(ctx, selectSlots, []any{s.Cluster()}, &have)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return s.db.Fail("read the number of slots", err)
	case have != want:
		return &checkpoint.LayoutError{Want: want, Have: have}
	}
	return nil
}

// Acquire takes the slot with a new epoch, unless another owner's lease has not expired.
func (s *Store) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (state checkpoint.SlotState, err error) {
	var offsets []byte
	err = s.row(ctx, s.Dialect.Acquire, []any{s.Cluster(), slot, owner, ttl, s.slots.Load()},
		&state.Epoch, &state.Seq, &offsets, &state.New)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoint.SlotState{}, s.refused(ctx, slot)
	}
	if err == nil {
		state.Offsets, err = s.Parse(offsets)
	}
	return state, s.db.Fail(fmt.Sprintf("acquire slot %d", slot), err)
}

func (s *Store) refused(ctx context.Context, slot int) error {
	if err := s.SameLayout(ctx); err != nil {
		return err
	}
	e := &checkpoint.HeldError{Slot: slot}
	const query = `select owner, lease_until from kubecdc.slots where cluster = $1 and slot = $2`
	if err := s.row(ctx, query, []any{s.Cluster(), slot}, &e.Owner, &e.Until); err != nil {
		return s.db.Fail(fmt.Sprintf("see who holds slot %d", slot), err)
	}
	return e
}

func (s *Store) Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error {
	return s.lease(ctx, "renew the lease of", slot, epoch, ttl)
}

func (s *Store) Release(ctx context.Context, slot int, epoch int64) error {
	return s.lease(ctx, "release", slot, epoch, 0)
}

func (s *Store) lease(ctx context.Context, verb string, slot int, epoch int64, ttl time.Duration) error {
	const set = `update kubecdc.slots set lease_until = clock_timestamp() + $4::interval
		where cluster = $1 and slot = $2 and epoch = $3`
	changed, err := s.db.Exec(ctx, set, s.Cluster(), slot, epoch, ttl)
	if err == nil && changed == 0 {
		err = NotOwned(ctx, s.db, s.Cluster(), slot, epoch)
	}
	return s.db.Fail(fmt.Sprintf("%s slot %d", verb, slot), err)
}

func (s *Store) RaiseEpoch(ctx context.Context, slot int, epoch, above int64) (raised int64, err error) {
	const raise = `update kubecdc.slots set epoch = case when epoch > $4 then epoch else $4 end + 1
		where cluster = $1 and slot = $2 and epoch = $3 returning epoch`
	err = s.row(ctx, raise, []any{s.Cluster(), slot, epoch, above}, &raised)
	if errors.Is(err, sql.ErrNoRows) {
		err = NotOwned(ctx, s.db, s.Cluster(), slot, epoch)
	}
	return raised, s.db.Fail(fmt.Sprintf("raise the epoch of slot %d above %d", slot, above), err)
}

func (s *Store) RecordSelection(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	text, _ := json.Marshal(append([]change.StreamID{}, streams...)) // can't fail: strings
	err := s.Owned(ctx, slot, epoch, func(t *Tx) error {
		_, err := t.Do(`update kubecdc.slots set selected = $3 where cluster = $1 and slot = $2`, t.Cluster, slot, string(text))
		return err
	})
	return s.db.Fail(fmt.Sprintf("record which streams slot %d selects", slot), err)
}

func (s *Store) Check(ctx context.Context, slot int, epoch int64, seq uint64) error {
	return s.db.Fail(fmt.Sprintf("look for batch %d of slot %d", seq, slot), Check(ctx, s.db, s.Cluster(), slot, epoch, seq))
}

// Check returns ErrFenced if the slot has a higher epoch. It returns ErrBehind if the slot has a lower epoch, or is not yet at
// the batch.
func Check(ctx context.Context, q Querier, cluster int64, slot int, epoch int64, seq uint64) error {
	const query = `select epoch, seq from kubecdc.slots where cluster = $1 and slot = $2`
	var haveEpoch int64
	var haveSeq uint64
	err := q.Row(ctx, query, []any{cluster, slot}, &haveEpoch, &haveSeq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err = checkpoint.CompareEpochs(haveEpoch, epoch); err == nil && haveSeq < seq {
		return checkpoint.ErrBehind
	}
	return err
}

// NotOwned returns the error for a slot that lacks the epoch, or the expected batch or page.
func NotOwned(ctx context.Context, q Querier, cluster int64, slot int, epoch int64) error {
	return cmp.Or(Check(ctx, q, cluster, slot, epoch, 0), checkpoint.ErrBehind)
}
