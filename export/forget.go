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

// EndedStreams returns the streams that may be forgotten.
func EndedStreams(ctx context.Context, store checkpoint.Reader) ([]change.Position, error) {
	all, err := store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool { return p.Ended == "" }), err
}

// Forget deletes a stream that has ended from the checkpoint; for any other it returns *checkpoint.NotEndedError. Meanwhile it
// owns the stream's slot, so that no exporter can be working on it.
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
		return fmt.Errorf("stream %s belongs to a slot that a running exporter owns: stop all exporters first: %w", stream, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(store.Forget(ctx, slot, state.Epoch, stream), leases.Release(ctx, slot, state.Epoch))
}
