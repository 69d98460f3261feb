package export

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/ownership"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// A process may be killed, or asked to end, in the first seconds of an outage. So a batch that the sink has not acknowledged
// after a second also goes into a spool. If the sink takes the batch, or never will, the spool is removed. Otherwise the next
// session, or the next process, goes on there. Each other slot begins an empty one meanwhile, since after a kill nobody else knows that its
// inventory has all of the log. It removes that before it writes to the sink again.

const earlyAfter = time.Second

// early is what a slot needs to begin a spool while a batch is being written.
type early struct {
	flush  func(context.Context) error // flushes the session's memory, or nil if the session does not write to the sink
	copied change.Batch                // the batch, since the sink may change its own

	mu      sync.Mutex // held while an empty spool begins
	writing bool       // a batch is being written
	empty   bool       // there is an empty spool
}

// bell tells the slots of a process that the sink leaves a batch unacknowledged.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // is closed when it rings
}

func newBell() *bell { return &bell{next: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// rings returns a channel that is closed when the bell rings next.
func (b *bell) rings() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// listen begins an empty spool each time that the bell rings, if the session writes to the sink, until it calls stop.
func (s *slot) listen(writing context.Context) (stop func()) {
	if s.early.flush == nil || s.parts.Spools == nil {
		return func() {}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-s.parts.bell.rings():
				if err := s.beginEmpty(writing); err != nil && writing.Err() == nil {
					s.logger.Warn("the sink does not take batches of another slot, and no empty spool could begin", "error", err)
				}
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

// beginEmpty begins an empty spool if the sink has acknowledged all batches, and the inventory has them.
func (s *slot) beginEmpty(ctx context.Context) error {
	s.early.mu.Lock()
	defer s.early.mu.Unlock()
	if s.early.writing || s.early.empty { // while a batch is being written, the state of the sink is its own
		return nil
	}
	end, isSettled := s.sink.(settled)
	if !isSettled {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, awayAfter, errSinkSilent)
	defer cancel()
	err := s.beginAfter(ctx, end.epoch, end.seq, nil)
	s.early.empty = err == nil
	return err
}

// startWriting removes the slot's empty spool, since the log gets a batch that it would not continue.
func (s *slot) startWriting() error {
	s.early.mu.Lock()
	defer s.early.mu.Unlock()
	s.early.writing = true
	if !s.early.empty {
		return nil
	}
	s.early.empty = false
	return s.parts.Spools.Remove(s.number)
}

func (s *slot) endWriting() {
	s.early.mu.Lock()
	defer s.early.mu.Unlock()
	s.early.writing = false
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

// beginEarly reports whether the spool has begun.
func (s *slot) beginEarly(ctx context.Context, b *change.Batch) bool {
	if !slices.ContainsFunc(b.Controls, func(c change.Control) bool { return c.Type == change.ControlSettings }) {
		b.Controls = append(b.Controls, change.SettingsControl(s.config.Content.Ignores())) // another process may forward it, with other settings
	}
	(&numbering{b.Slot, b.Epoch, b.Seq - 1, s.config.Cluster}).next(b)
	err := s.beginAfter(ctx, b.Epoch, b.Seq-1, b)
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the sink has not taken a batch for a second, and no spool could begin", "error", err)
	}
	if err == nil {
		s.parts.bell.ring()
	}
	return err == nil
}

// beginAfter begins a spool after a batch, which the inventory must have, with the next one or nil.
func (s *slot) beginAfter(ctx context.Context, epoch int64, seq uint64, next *change.Batch) error {
	err := s.early.flush(ctx)
	if err == nil {
		err = s.parts.Store.Check(ctx, s.number, epoch, seq)
	}
	var positions []change.Position
	if err == nil {
		positions, err = s.positionsOf(ctx, nil)
	}
	if err == nil && (next != nil || len(positions) > 0) { // a slot without streams reads nothing, and could not be handed over
		err = s.parts.Spools.Begin(ctx, s.number, s.parts.log, positions, seq+1, next)
	}
	return err
}

// mayDrain reports whether what was read can still go into a spool that has begun: the process is to end, and the sink is away.
func (s *slot) mayDrain(parent, writing context.Context, memory *opened, err error) bool {
	_, isSpooling := memory.Memory.(*spooling)
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
		c := s.newCommitter(o, state.Epoch)
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
