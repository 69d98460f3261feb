package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
)

// MarkLost notes that the log has lost the streams.
func (s *Store) MarkLost(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	ids, err := s.streamsThat(ctx, func(stream change.StreamID) bool { return slices.Contains(streams, stream) })
	if err == nil {
		err = s.owned(ctx, slot, epoch, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `update kubecdc.positions set resource_version = '' where stream = any ($1)`, ids)
			return err
		})
	}
	if err == nil {
		err = s.inSteps(ctx, slot, epoch, ids, `update kubecdc.inventory set lost = true`)
	}
	return s.db.Fail(fmt.Sprintf("note that the log has lost %d streams of slot %d", len(streams), slot), err)
}
