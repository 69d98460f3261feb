package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Forget drops what is known of a stream that has ended.
func (s *Store) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		const own = `select from kubecdc.slots where cluster = $1 and slot = $2 and epoch = $3 for update`
		tag, err := tx.Exec(ctx, own, s.cluster.Load(), slot, epoch)
		if err == nil && tag.RowsAffected() == 0 {
			err = checkpoint.ErrFenced
		}
		if err != nil {
			return err
		}
		const end = `delete from kubecdc.positions where ended <> '' and stream = (select id from kubecdc.streams where cluster = $1 and name = $2)
			returning stream`
		var id int32
		if err := tx.QueryRow(ctx, end, s.cluster.Load(), stream).Scan(&id); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `delete from kubecdc.inventory where stream = $1`, id)
		return err
	})
	switch {
	case errors.Is(err, checkpoint.ErrFenced):
		return err
	case errors.Is(err, pgx.ErrNoRows):
		return &checkpoint.NotEndedError{Stream: stream}
	}
	return s.db.Fail("forget stream "+string(stream), err)
}
