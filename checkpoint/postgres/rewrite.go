package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Rewrite notes that the log has lost the streams.
func (s *Store) Rewrite(ctx context.Context, slot int, epoch int64, streams []string) error {
	owned := true
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		const own = `select from kubecdc.slots where cluster = $1 and slot = $2 and epoch = $3 for update`
		tag, err := tx.Exec(ctx, own, s.cluster.Load(), slot, epoch)
		if owned = err != nil || tag.RowsAffected() > 0; err != nil || !owned {
			return err
		}
		const which = ` where stream in (select id from kubecdc.streams where cluster = $1 and name = any ($2))`
		if _, err := tx.Exec(ctx, `update kubecdc.positions set resource_version = ''`+which, s.cluster.Load(), streams); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `update kubecdc.inventory set resource_version = '-' || ltrim(resource_version, '-')`+which, s.cluster.Load(), streams)
		return err
	})
	if err == nil && !owned {
		return s.notOwned(ctx, slot, epoch)
	}
	return s.db.Fail(fmt.Sprintf("note that %d streams of slot %d are to be written again", len(streams), slot), err)
}
