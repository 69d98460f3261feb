package spooling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks/spool"
)

// Forwarder writes the batches of a slot's spool to the sink, in their order and under their numbers. The sink knows which
// batches it has, so none is written twice. They are prepared again: before-images come from the sink's state, and redaction
// follows this session's rules.
type Forwarder struct {
	*commit.Committer
	to          *commit.Opened
	spool       *spool.Spool
	redactorFor func(stream change.StreamID) inventory.Redactor
}

// NewForwarder returns a forwarder to an open log.
func NewForwarder(s *plan.Slot, sp *spool.Spool, to *commit.Opened, epoch int64) *Forwarder {
	f := &Forwarder{commit.New(s, to, epoch), to, sp, plan.Cached(s.Config.BodyRedactor)}
	f.Written = func(live.Committed) {} // they were reported when they were read
	return f
}

// ErrMoreLeft says that not all batches were forwarded in the given time.
var ErrMoreLeft = errors.New("the spool has more batches")

// Run forwards the spool's batches until a time, or without a limit for the zero time. Unless it returns an error of the
// checkpoint, the inventory has all batches that the sink has.
func (f *Forwarder) Run(ctx context.Context, until time.Time) error {
	err := f.spool.Forward(ctx, f.Seq, func(b *change.Batch) error {
		if !until.IsZero() && time.Now().After(until) {
			return ErrMoreLeft
		}
		return f.forward(ctx, b)
	})
	return cmp.Or(f.to.Following.Flush(ctx), err)
}

func (f *Forwarder) forward(ctx context.Context, b *change.Batch) error {
	if b.Seq != f.Seq+1 {
		return fmt.Errorf("%w: batch %d comes after batch %d", spool.ErrUnusable, b.Seq, f.Seq)
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if redact := f.redactorFor(c.Stream.ID()); redact != nil && c.After != nil {
			c.After = redact(c.Key(), c.After)
		}
	}
	failpoint.Hit(failpoint.Forwarding)
	if f.to.Behind != nil {
		f.Offsets = f.to.Loss.Offsets
	}
	b.Controls = slices.Concat(f.to.Behind, f.to.Hole, b.Controls)
	err := f.Commit(ctx, &batching.Batch{Batch: *b})
	if f.Offsets = nil; err == nil {
		f.to.Behind, f.to.Hole = nil, nil
	}
	failpoint.Hit(failpoint.Forwarded)
	return err
}
