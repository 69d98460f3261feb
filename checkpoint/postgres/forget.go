package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Forget drops the position and the objects of a stream that has ended.
func (s *Store) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	err := s.owned(ctx, slot, epoch, func(tx pgx.Tx) error {
		const end = `delete from kubecdc.positions where ended <> ''
			and stream = (select id from kubecdc.streams where cluster = $1 and name = $2) returning stream`
		var id int32
		if err := tx.QueryRow(ctx, end, s.cluster.Load(), stream).Scan(&id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `delete from kubecdc.inventory where stream = $1`, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return &checkpoint.NotEndedError{Stream: stream}
	}
	return s.db.Fail("forget stream "+string(stream), err)
}
