package export

import (
	"context"
	"errors"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/ownership"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// A process may be killed, or asked to end, in the first seconds of an outage. So a batch that the sink has not acknowledged
// after a second also goes into a spool. If the sink takes the batch, or never will, the spool is removed. Otherwise the next
// session, or the next process, goes on there.

const earlyAfter = time.Second

// early is what a slot needs to begin a spool while a batch is being written.
type early struct {
	flush  func(context.Context) error // flushes the session's memory, or nil if the session does not write to the sink
	copied change.Batch                // the batch, since the sink may change its own
}

// spoolEarly begins a spool with a batch after a second. Once the spool has the batch, it calls giveUp some time after the
// session was to end. The caller calls written with the result.
func (s *slot) spoolEarly(ctx context.Context, b *change.Batch, giveUp context.CancelCauseFunc) (written func(err error)) {
	if s.early.flush == nil {
		return func(error) {}
	}
	changes, controls := append(s.early.copied.Changes[:0], b.Changes...), append(s.early.copied.Controls[:0], b.Controls...)
	s.early.copied = *b
	s.early.copied.Changes, s.early.copied.Controls = changes, controls
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan bool, 1)
	go func() {
		begun := wait.For(ctx, earlyAfter) == nil && s.beginEarly(ctx, &s.early.copied)
		ended <- begun
		if begun {
			select {
			case <-sinks.SessionOf(ctx).Done():
				if wait.For(ctx, s.config.ShutdownTimeout/2) == nil { // the rest is for what follows
					giveUp(errSinkSilent)
				}
			case <-ctx.Done():
			}
		}
	}()
	return func(err error) {
		stop()
		if <-ended && (err == nil || isVerdict(err)) {
			if err := s.parts.Spools.Remove(s.number); err != nil { // the inventory will have passed it by
				s.logger.Warn("failed to remove a spool that is not needed", "error", err)
			}
		}
		clear(s.early.copied.Changes)
	}
}

// beginEarly reports whether the spool has begun. The inventory must have all batches before.
func (s *slot) beginEarly(ctx context.Context, b *change.Batch) bool {
	err := s.early.flush(ctx)
	if err == nil {
		err = s.parts.Store.Check(ctx, s.number, b.Epoch, b.Seq-1)
	}
	var positions []change.Position
	if err == nil {
		positions, err = s.positionsOf(ctx, nil)
	}
	if err == nil {
		s.filter().tell(b) // the process that forwards it may have other settings
		(&numbering{b.Slot, b.Epoch, b.Seq - 1, s.config.Cluster}).next(b)
		err = s.parts.Spools.Begin(ctx, s.number, s.parts.log, positions, b.Seq, b)
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the sink has not taken a batch for a second, and no spool could begin", "error", err)
	}
	return err == nil
}

// mayDrain reports whether what was read can still go into a spool that has begun: the process is to end, and the sink is away.
func (s *slot) mayDrain(parent, writing context.Context, memory Memory, err error) bool {
	_, isSpooling := memory.(*spooling)
	ends := parent.Err() != nil && ownership.SteppedDown(parent) == nil && writing.Err() == nil
	return ends && !isSpooling && mayBeAway(err) && s.parts.Spools != nil && s.parts.Spools.Has(s.number)
}

// drain writes into the spool what the queue has after the first batch, which the spool has. It does that with a new epoch, as
// the next session would.
func (s *slot) drain(ctx context.Context, q *batching.Queue, stopped <-chan struct{}, why error) error {
	state, err := s.acquire(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	defer s.release(state.Epoch)
	_, err = whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (any, error) {
		var err error
		if s.spool, err = s.openSpool(ctx, &state); err != nil || s.spool == nil {
			return nil, errors.Join(why, err)
		}
		defer func() { s.spool = nil }()
		o, err := s.spoolOn(ctx, &state, nil, why)
		if err != nil {
			return nil, err
		}
		defer o.log.Close()
		c := s.newCommitter(o.Memory, state.Epoch)
		c.filter = s.filter()
		for i, b := range q.InFlight() {
			if i > 0 {
				if err := c.commit(ctx, b); err != nil {
					return nil, err
				}
			}
			q.Done(b)
		}
		return nil, c.commitAll(ctx, q, stopped)
	})
	return err
}
