package export

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
)

// EndedStreams are those that may be forgotten.
func EndedStreams(ctx context.Context, store checkpoint.Reader) ([]change.Position, error) {
	all, err := store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool { return p.Ended == "" }), err
}

// Forget drops what the checkpoint has of a stream that has ended; *checkpoint.NotEndedError for another. It becomes the
// owner of the stream's slot for that moment, so that no process that lives can be working on it.
func Forget(ctx context.Context, config Config, store checkpoint.Store, leases checkpoint.Leases, stream change.StreamID) error {
	ended, err := EndedStreams(ctx, store)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ended, func(p change.Position) bool { return p.Stream == stream }) {
		return &checkpoint.NotEndedError{Stream: stream}
	}
	slots, err := store.Slots(ctx, config.Slots)
	if err != nil {
		return err
	}
	slot := ownership.SlotOf(stream, slots)
	state, err := leases.Acquire(ctx, slot, config.Owner, config.LeaseDuration)
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("stream %s belongs to a slot that an exporter works on: stop all of them, and forget it then: %w", stream, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(store.Forget(ctx, slot, state.Epoch, stream), leases.Release(ctx, slot, state.Epoch))
}
