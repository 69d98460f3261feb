package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

// Check says whether the slot is still owned, and has the batch.
func (s *Store) Check(ctx context.Context, slot int, epoch int64, seq uint64) error {
	err := check(ctx, s.db, s.cluster.Load(), slot, epoch, seq)
	return s.fail(fmt.Sprintf("look for batch %d of slot %d", seq, slot), err)
}

// querier is the database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// check gives ErrFenced where the slot has a higher epoch, and ErrBehind where it has a lower one or has not come to the batch.
func check(ctx context.Context, db querier, cluster int64, slot int, epoch int64, seq uint64) error {
	const look = `select epoch, seq from slots where cluster = ? and slot = ?`
	var haveEpoch int64
	var haveSeq uint64
	err := db.QueryRowContext(ctx, look, cluster, slot).Scan(&haveEpoch, &haveSeq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err = checkpoint.CompareEpochs(haveEpoch, epoch); err == nil && haveSeq < seq {
		return checkpoint.ErrBehind
	}
	return err
}

// notOwned gives the error for a slot that does not have the epoch, or not the batch or page that was expected.
func notOwned(ctx context.Context, db querier, cluster int64, slot int, epoch int64) error {
	return cmp.Or(check(ctx, db, cluster, slot, epoch, 0), checkpoint.ErrBehind)
}

// owned runs a transaction. It fails with checkpoint.ErrFenced or checkpoint.ErrBehind where the slot does not have the epoch.
func (s *Store) owned(ctx context.Context, slot int, epoch int64, do func(*transaction) error) error {
	return s.inTx(ctx, func(t *transaction) error {
		if err := check(ctx, t, t.cluster, slot, epoch, 0); err != nil {
			return err
		}
		return do(t)
	})
}
