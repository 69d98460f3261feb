package export

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/export/batching"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks/spool"
)

// forwarder writes the batches of a slot's spool to the sink, in their order and under their numbers. The sink knows which it has, so none
// is written twice. It prepares them as the committer did: before-images are what the sink has, and no rule is older than this session.
type forwarder struct {
	slot        *slot
	spool       *spool.Spool
	to          *opened
	epoch       int64
	prepared    batching.Prepared
	provenance  *provenance.Reader // nil: the sink does not write it
	redactorFor func(stream change.StreamID) bodyRedactor
	written     func(*change.Batch) // is called with each batch that the sink has
}

func newForwarder(s *slot, sp *spool.Spool, to *opened, epoch int64) *forwarder {
	f := &forwarder{slot: s, spool: sp, to: to, epoch: epoch, redactorFor: cached(s.bodyRedactorOf), written: func(*change.Batch) {}}
	if !s.config.TellsWhenRead {
		f.provenance = new(provenance.Reader)
	}
	return f
}

// errMoreLeft: not all batches were forwarded in the time that there was.
var errMoreLeft = errors.New("the spool has more batches")

// run forwards what the spool has, until a time (zero: no limit). When it returns nil, the inventory has all of that too.
func (f *forwarder) run(ctx context.Context, until time.Time) error {
	err := f.spool.Forward(ctx, f.to.Seq(), func(b *change.Batch) error {
		if !until.IsZero() && time.Now().After(until) {
			return errMoreLeft
		}
		return f.forward(ctx, b)
	})
	if err != nil {
		return err
	}
	return f.to.Flush(ctx)
}

func (f *forwarder) forward(ctx context.Context, b *change.Batch) error {
	p := &f.prepared
	p.Batch, p.Offsets = b, nil
	(&numbering{b.Slot, f.epoch, b.Seq - 1, f.slot.config.Cluster}).next(b)
	for i := range b.Changes {
		c := &b.Changes[i]
		if redact := f.redactorFor(c.Stream.ID()); redact != nil && c.After != nil {
			c.After = redact(c.Key(), c.After)
		}
	}
	p.Find()
	if f.slot.config.Before {
		if err := f.to.Before(ctx, p); err != nil {
			return err
		}
	}
	p.LeaveOut(func(*change.Change) bool { return false }, f.slot.config.Before)
	if f.provenance != nil {
		f.provenance.ReadAll(p.Batch)
	}
	if err := f.to.Check(ctx, p); err != nil {
		return err
	}
	p.Written = func() { f.written(b) }
	failpoint.Hit(failpoint.Forwarding)
	err := f.to.Write(ctx, p)
	failpoint.Hit(failpoint.Forwarded)
	return dependency.Tag(dependency.Sink, err)
}
