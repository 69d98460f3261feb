package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

const (
	tellEvery   = 100 * time.Millisecond // the progress, for /readyz
	reportEvery = 5 * time.Second        // a line about it in the log
)

// rolling moves the checkpoint over the log's tail: what earlier owners wrote to the sink and did not checkpoint. Each batch is
// committed before the next one is read, so that memory does not grow with the tail, and whoever is interrupted leaves a
// checkpoint that stands at a batch, from where the next owner goes on.
type rolling struct {
	*slot
	state *checkpoint.SlotState
	hides func(stream change.StreamID) rewrite

	last                uint64 // of the tail's batches
	batches, changes    int
	started, told, said time.Time
}

// rollForward gives what the log has lost, as far as that is known after the tail was read.
func (s *slot) rollForward(ctx context.Context, state *checkpoint.SlotState, opened *sinks.Opened) (*sinks.LostTailError, error) {
	r := &rolling{slot: s, state: state, hides: s.rewrites(), last: opened.Last, started: time.Now(), said: time.Now()}
	if r.last > state.Seq {
		r.tell()
		defer s.parts.Observer.RollingForward(s.number, 0, 0)
	}
	err := opened.Tail(ctx, func(b *sinks.Recovered) error { return r.commit(ctx, b) })
	if r.batches > 0 {
		r.say("rolled the checkpoint forward")
	}
	lost := opened.Lost
	switch {
	case err == nil || errors.As(err, &lost):
		return lost, nil
	case dependency.Of(err) == "":
		err = dependency.Tag(dependency.Sink, err)
	}
	return nil, err
}

func (r *rolling) commit(ctx context.Context, b *sinks.Recovered) error {
	failpoint.Hit(failpoint.RollingForward)
	redactBatch(&b.Batch, r.hides)
	if err := r.parts.Store.Commit(ctx, commitOf(&b.Batch, r.state.Epoch, b.Offsets, r.config.Before)); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("roll the checkpoint of slot %d forward to batch %d: %w", r.number, b.Batch.Seq, err))
	}
	r.state.Seq, r.state.Offsets = b.Batch.Seq, r.state.Offsets.Merge(b.Offsets)
	r.batches, r.changes = r.batches+1, r.changes+len(b.Batch.Changes)
	if time.Since(r.told) > tellEvery {
		r.tell()
	}
	if time.Since(r.said) > reportEvery {
		r.said = time.Now()
		r.say("rolling the checkpoint forward")
	}
	return nil
}

// tell is for /readyz.
func (r *rolling) tell() {
	r.told = time.Now()
	r.parts.Observer.RollingForward(r.number, r.state.Seq, max(r.last, r.state.Seq))
}

func (r *rolling) say(text string) {
	r.log.Info(text, "batch", r.state.Seq, "batches", r.batches, "changes", r.changes,
		"took", time.Since(r.started).Round(time.Millisecond).String())
}
