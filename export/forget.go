package export

import (
	"context"
	"errors"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/plan"
)

// EndedStreams returns the streams that may be forgotten.
func EndedStreams(ctx context.Context, store checkpoint.Overview) ([]change.Position, error) {
	all, err := store.Streams(ctx)
	return slices.DeleteFunc(all, func(p change.Position) bool { return p.Ended == "" }), err
}

// Forget deletes a stream that has ended from the checkpoint. For any other stream it returns *checkpoint.NotEndedError.
// Meanwhile it owns the stream's slot, so that no exporter works on it. If one already does, it returns *checkpoint.HeldError.
func Forget(ctx context.Context, config plan.Config, store checkpoint.Store, stream change.StreamID) error {
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
	slot := change.SlotOf(stream, slots)
	state, err := store.Acquire(ctx, slot, config.Owner, config.LeaseDuration)
	if err != nil {
		return err
	}
	return errors.Join(store.Forget(ctx, slot, state.Epoch, stream), store.Release(ctx, slot, state.Epoch))
}
