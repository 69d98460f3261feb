package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Forget drops what is known of a stream that has ended.
func (s *Store) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		if err := own(ctx, tx, s.cluster.Load(), slot, epoch, 0); err != nil {
			return err
		}
		const end = `delete from positions where ended <> '' and stream = (select id from streams where cluster = ? and name = ?)
			returning stream`
		var id int64
		if err := tx.QueryRowContext(ctx, end, s.cluster.Load(), stream).Scan(&id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `delete from inventory where stream = ?`, id)
		return err
	})
	switch {
	case errors.Is(err, checkpoint.ErrFenced):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return &checkpoint.NotEndedError{Stream: stream}
	}
	return s.fail("forget stream "+string(stream), err)
}
