package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
)

// Rewrite notes that the log has lost the streams.
func (s *Store) Rewrite(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	op := fmt.Sprintf("note that %d streams of slot %d are to be written again", len(streams), slot)
	var ids []int32
	owned, err := s.own(ctx, slot, epoch, func(tx pgx.Tx) error {
		const look = `select id from kubecdc.streams where cluster = $1 and name = any ($2)`
		rows, err := tx.Query(ctx, look, s.cluster.Load(), streams)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		}
		if err == nil {
			_, err = tx.Exec(ctx, `update kubecdc.positions set resource_version = '' where stream = any ($1)`, ids)
		}
		return err
	})
	if err == nil && owned {
		owned, err = s.inSteps(ctx, slot, epoch, ids, `update kubecdc.inventory set resource_version = '-' || ltrim(resource_version, '-')`)
	}
	if err == nil && !owned {
		return s.notOwned(ctx, slot, epoch)
	}
	return s.db.Fail(op, err)
}
