package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
)

// Check says whether the slot is still owned, and has the batch.
func (s *Store) Check(ctx context.Context, slot int, epoch int64, seq uint64) error {
	haveEpoch, haveSeq, err := s.slotAt(ctx, slot)
	if err == nil {
		err = checkpoint.CompareEpochs(haveEpoch, epoch)
	}
	if err == nil && haveSeq < seq {
		err = checkpoint.ErrBehind
	}
	return s.db.Fail(fmt.Sprintf("look for batch %d of slot %d", seq, slot), err)
}

// slotAt gives the slot's epoch and batch; zeros if the store does not know the slot.
func (s *Store) slotAt(ctx context.Context, slot int) (epoch int64, seq uint64, err error) {
	const look = `select epoch, seq from kubecdc.slots where cluster = $1 and slot = $2`
	err = s.db.QueryRow(ctx, look, s.cluster.Load(), slot).Scan(&epoch, &seq)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return epoch, seq, err
}

// notOwned gives the error for a slot that does not have the epoch, or not the batch or page that was expected.
func (s *Store) notOwned(ctx context.Context, slot int, epoch int64) error {
	have, _, err := s.slotAt(ctx, slot)
	if err != nil {
		return err
	}
	return cmp.Or(checkpoint.CompareEpochs(have, epoch), checkpoint.ErrBehind)
}

// owned runs a transaction during which nobody else can acquire the slot, nor its lease be renewed. It fails with
// checkpoint.ErrFenced or checkpoint.ErrBehind where the slot does not have the epoch.
func (s *Store) owned(ctx context.Context, slot int, epoch int64, do func(pgx.Tx) error) error {
	if err := s.bound(); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		const lock = `select epoch from kubecdc.slots where cluster = $1 and slot = $2 for no key update`
		var have int64
		err := tx.QueryRow(ctx, lock, s.cluster.Load(), slot).Scan(&have)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := checkpoint.CompareEpochs(have, epoch); err != nil {
			return err
		}
		return do(tx)
	})
}
