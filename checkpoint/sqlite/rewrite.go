package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"kubecdc/change"
)

// Rewrite notes that the log has lost the streams.
func (s *Store) Rewrite(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	op := fmt.Sprintf("note that %d streams of slot %d are to be written again", len(streams), slot)
	ids, err := s.streamsThat(ctx, func(stream change.StreamID) bool { return slices.Contains(streams, stream) })
	if err != nil {
		return s.fail(op, err)
	}
	err = s.ownedBy(ctx, op, slot, epoch, func(t *commit) (err error) {
		for _, id := range ids {
			if err == nil {
				_, err = t.tx.ExecContext(ctx, `update positions set resource_version = '' where stream = ?`, id)
			}
		}
		return err
	})
	for _, id := range ids {
		if err == nil {
			err = s.distrustObjects(ctx, op, slot, epoch, id)
		}
	}
	return err
}

// distrustObjects puts a minus before the versions of a stream's objects, in steps: leases are renewed over the same connection.
func (s *Store) distrustObjects(ctx context.Context, op string, slot int, epoch, stream int64) error {
	const look = `select max(key) from (select key from inventory where stream = ? and key > ? order by key limit 5000)`
	const step = `update inventory set resource_version = '-' || ltrim(resource_version, '-') where stream = ? and key > ? and key <= ?`
	var last sql.NullString
	for after := ""; ; after = last.String {
		err := s.ownedBy(ctx, op, slot, epoch, func(t *commit) error {
			err := t.tx.QueryRowContext(ctx, look, stream, after).Scan(&last)
			if err == nil && last.Valid {
				_, err = t.tx.ExecContext(ctx, step, stream, after, last.String)
			}
			return err
		})
		if err != nil || !last.Valid {
			return err
		}
	}
}
