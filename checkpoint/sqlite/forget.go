package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Forget drops the position and the objects of a stream that has ended.
func (s *Store) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	err := s.owned(ctx, slot, epoch, func(t *transaction) error {
		const end = `delete from positions where ended <> ''
			and stream = (select id from streams where cluster = ? and name = ?) returning stream`
		var id int64
		if err := t.QueryRowContext(ctx, end, t.cluster, stream).Scan(&id); err != nil {
			return err
		}
		_, err := t.exec(`delete from inventory where stream = ?`, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return &checkpoint.NotEndedError{Stream: stream}
	}
	return s.fail("forget stream "+string(stream), err)
}
