package sqlite

import (
	"context"
	"fmt"
	"slices"

	"kubecdc/change"
)

// MarkLost notes that the log has lost the streams.
func (s *Store) MarkLost(ctx context.Context, slot int, epoch int64, streams []change.StreamID) error {
	ids, err := s.streamsThat(ctx, func(stream change.StreamID) bool { return slices.Contains(streams, stream) })
	if err == nil {
		err = s.owned(ctx, slot, epoch, func(t *transaction) (err error) {
			for _, id := range ids {
				if err == nil {
					_, err = t.exec(`update positions set resource_version = '' where stream = ?`, id)
				}
			}
			return err
		})
	}
	if err == nil {
		err = s.inSteps(ctx, slot, epoch, ids, `update inventory set lost = true`)
	}
	return s.fail(fmt.Sprintf("note that the log has lost %d streams of slot %d", len(streams), slot), err)
}
