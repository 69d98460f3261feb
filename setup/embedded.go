package setup

import (
	"context"
	"log/slog"
	"math"
	"slices"

	"kubecdc/change"
	"kubecdc/checkpoint"
	checkpointsqlite "kubecdc/checkpoint/sqlite"
	"kubecdc/sinks/sqlite"
)

// embedded is the checkpoint of an exporter whose log is in the same file. The positions, the living objects and the earlier
// checkpoints, which are the batches, come from the log (Memory). The store has the rest: leases, slots, signals, pins.
type embedded struct {
	*checkpointsqlite.Store
	*sqlite.Memory
}

var (
	_ checkpoint.Store = (*embedded)(nil)
	_ checkpoint.Past  = (*embedded)(nil)
)

// newEmbedded moves a store's data into the log, if an earlier release has written the file. It closes the store after an error.
func newEmbedded(ctx context.Context, store *checkpointsqlite.Store, cluster string) (*embedded, error) {
	memory, err := sqlite.NewMemory(ctx, store.File(), cluster)
	if err == nil && store.File().Owned() {
		err = memory.TakeOver(ctx, slog.Default())
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return &embedded{Store: store, Memory: memory}, nil
}

func (e *embedded) Close() {
	e.Memory.Close()
	e.Store.Close()
}

func (e *embedded) Streams(ctx context.Context) ([]change.Position, error) {
	return e.Memory.Positions(ctx)
}

func (e *embedded) Inventory(ctx context.Context, stream change.StreamID, visit func(checkpoint.Object) error) error {
	return e.Memory.Objects(ctx, stream, func(key, uid string, version change.ResourceVersion) error {
		return visit(checkpoint.Object{Key: key, UID: uid, ResourceVersion: version})
	})
}

func (e *embedded) Forget(ctx context.Context, slot int, epoch int64, stream change.StreamID) error {
	if err := e.Store.Check(ctx, slot, epoch, 0); err != nil {
		return err
	}
	ended, err := e.Memory.Forget(ctx, stream)
	if err == nil && !ended {
		err = &checkpoint.NotEndedError{Stream: stream}
	}
	return err
}

// SlotOwners returns the owners with the log's last batches.
func (e *embedded) SlotOwners(ctx context.Context) ([]checkpoint.SlotOwner, error) {
	owners, err := e.Store.SlotOwners(ctx)
	if err != nil {
		return nil, err
	}
	last, err := e.Memory.LastBatches(ctx)
	for i := range owners {
		b := last[owners[i].Slot]
		owners[i].Seq, owners[i].Time = b.Seq, b.Written
	}
	return owners, err
}

func (e *embedded) HistorySlots(ctx context.Context) (slots []int, err error) {
	last, err := e.Memory.LastBatches(ctx)
	for slot := range last {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots, err
}

func (e *embedded) Select(ctx context.Context, slot int, w checkpoint.Window) ([]checkpoint.Checkpoint, error) {
	if w.Limit == 0 {
		w.Limit = math.MaxInt
	}
	batches, err := e.Memory.Batches(ctx, slot, w.Since, w.Until, w.Batch, w.Limit)
	all := make([]checkpoint.Checkpoint, len(batches))
	for i, b := range batches {
		all[i] = checkpoint.Checkpoint{Slot: slot, Epoch: b.Epoch, Seq: b.Seq, Time: b.Written, Positions: b.Positions,
			Offsets: change.Offsets{}}
	}
	return all, err
}
