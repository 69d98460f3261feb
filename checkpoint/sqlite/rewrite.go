package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"kubecdc/checkpoint"
)

// Rewrite notes that the log has lost the streams.
func (s *Store) Rewrite(ctx context.Context, slot int, epoch int64, streams []string) error {
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		err := own(ctx, tx, s.cluster.Load(), slot, epoch, 0)
		for _, set := range []string{`update positions set resource_version = ''`, `update inventory set resource_version = '-' || ltrim(resource_version, '-')`} {
			for _, stream := range streams {
				if err == nil {
					_, err = tx.ExecContext(ctx, set+` where stream = (select id from streams where cluster = ? and name = ?)`, s.cluster.Load(), stream)
				}
			}
		}
		return err
	})
	if errors.Is(err, checkpoint.ErrFenced) {
		return err
	}
	return s.fail(fmt.Sprintf("note that %d streams of slot %d are to be written again", len(streams), slot), err)
}
