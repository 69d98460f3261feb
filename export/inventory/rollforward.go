package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/rebuild"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// rollForward moves a slot's checkpoint over the log's tail: the batches that former owners wrote to the sink and did not
// checkpoint. Each batch is committed before the next one is read. So memory does not grow with the tail. An interrupted owner
// leaves the checkpoint at a batch from which the next owner continues.
type rollForward struct {
	*Slot
	state *checkpoint.SlotState

	last             uint64 // number of the tail's last batch
	batches, changes int
	started          time.Time
	pacer            *rebuild.Pacer
}

// rollForward commits the log's tail to the checkpoint. It returns the log's losses, as far as they are known after that.
func (s *Slot) rollForward(ctx context.Context, state *checkpoint.SlotState, opened *sinks.Opened) (*sinks.LostTailError, error) {
	r := &rollForward{Slot: s, state: state, last: opened.Last,
		started: time.Now(), pacer: rebuild.NewPacer()}
	if r.last > state.Seq {
		r.observe()
		defer s.State.Delayed(s.Settings.Slot, "")
	}
	err := opened.Tail(ctx, func(b *sinks.Recovered) error { return r.commit(ctx, b) })
	if r.batches > 0 {
		r.logProgress("rolled the checkpoint forward")
	}
	if loss, isLoss := errors.AsType[*sinks.LostTailError](err); isLoss || err == nil {
		return cmp.Or(loss, opened.Lost), nil
	}
	return nil, dependency.Tag(dependency.Sink, err)
}

func (r *rollForward) commit(ctx context.Context, b *sinks.Recovered) error {
	failpoint.Hit(failpoint.RollingForward)
	for i := range b.Batch.Changes { // another owner may have written more than is exported now
		c := &b.Batch.Changes[i]
		if redact := r.Redactor(c.Stream.ID()); redact != nil && c.After != nil {
			c.After = redact(c.Key(), c.After)
		}
	}
	if err := r.Store.Commit(ctx, commitOf(&b.Batch, r.state.Epoch, b.Offsets, r.Bodies)); err != nil {
		return dependency.Tag(dependency.Checkpoint,
			fmt.Errorf("roll the checkpoint of slot %d forward to batch %d: %w", r.Settings.Slot, b.Batch.Seq, err))
	}
	r.state.Seq, r.state.Offsets = b.Batch.Seq, r.state.Offsets.Merge(b.Offsets)
	r.batches, r.changes = r.batches+1, r.changes+len(b.Batch.Changes)
	r.pacer.Report(r.observe, func() { r.logProgress("rolling the checkpoint forward") })
	return nil
}

func (r *rollForward) observe() {
	r.State.Delayed(r.Settings.Slot, fmt.Sprintf("its checkpoint is being rolled forward: at batch %d of %d", r.state.Seq,
		max(r.last, r.state.Seq)))
}

func (r *rollForward) logProgress(message string) {
	r.Logger.Info(message, "batch", r.state.Seq, "batches", r.batches, "changes", r.changes,
		"took", time.Since(r.started).Round(time.Millisecond).String())
}
