package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks/spool"
)

// forwarder writes the batches of a slot's spool to the sink, in their order and under their numbers. The sink knows which batches
// it has, so none is written twice. They are prepared again: before-images come from the sink's state, and redaction follows this
// session's rules.
type forwarder struct {
	*committer
	spool       *spool.Spool
	redactorFor func(stream change.StreamID) inventory.Redactor
}

func (s *slot) newForwarder(sp *spool.Spool, to *opened, epoch int64) *forwarder {
	f := &forwarder{s.newCommitter(to, epoch), sp, plan.Cached(s.Config.BodyRedactor)}
	f.written = func(live.Committed) {} // they were reported when they were read
	return f
}

// errMoreLeft says that not all batches were forwarded in the given time.
var errMoreLeft = errors.New("the spool has more batches")

// run forwards the spool's batches until a time, or without a limit for the zero time. Unless it returns an error of the
// checkpoint, the inventory has all batches that the sink has.
func (f *forwarder) run(ctx context.Context, until time.Time) error {
	err := f.spool.Forward(ctx, f.seq, func(b *change.Batch) error {
		if !until.IsZero() && time.Now().After(until) {
			return errMoreLeft
		}
		return f.forward(ctx, b)
	})
	return cmp.Or(f.memory.following.Flush(ctx), err)
}

func (f *forwarder) forward(ctx context.Context, b *change.Batch) error {
	if b.Seq != f.seq+1 {
		return fmt.Errorf("%w: batch %d comes after batch %d", spool.ErrUnusable, b.Seq, f.seq)
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if redact := f.redactorFor(c.Stream.ID()); redact != nil && c.After != nil {
			c.After = redact(c.Key(), c.After)
		}
	}
	failpoint.Hit(failpoint.Forwarding)
	if f.memory.behind != nil {
		f.offsets = f.memory.loss.Offsets
	}
	b.Controls = slices.Concat(f.memory.behind, f.memory.hole, b.Controls)
	err := f.commit(ctx, &batching.Batch{Batch: *b})
	if f.offsets = nil; err == nil {
		f.memory.behind, f.memory.hole = nil, nil
	}
	failpoint.Hit(failpoint.Forwarded)
	return err
}
