package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/ownership"
	"kubecdc/export/spooling"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
)

// A process may be killed, or asked to end, in the first seconds of an outage. So a batch that the sink has not acknowledged
// after a second also goes into a spool. If the sink takes the batch, or never will, the spool is removed. Otherwise the next
// session, or the next process, continues with the spool. During the outage each other slot begins an empty spool. After a kill
// only this spool shows that the slot's inventory has all of the log. The slot removes its empty spool before it writes to the
// sink again.

const earlyAfter = time.Second

// early is what a slot needs to begin a spool while a batch is being written.
type early struct {
	flush  func(context.Context) error // flushes the session's memory, or nil if the session does not write to the sink
	copied change.Batch                // the batch, since the sink may change its own

	mu      sync.Mutex // held while an empty spool begins
	writing bool       // a batch is being written
	empty   bool       // there is an empty spool
}

// listen begins an empty spool each time that the bell rings, if the session writes to the sink, until it calls stop.
func (s *slot) listen(writing context.Context) (stop func()) {
	if s.early.flush == nil || s.Parts.Spools == nil {
		return func() {}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-s.Parts.Bell.Rings():
				if err := s.beginEmpty(writing); err != nil && writing.Err() == nil {
					s.Logger.Warn("the sink does not take batches of another slot, and no empty spool could begin", "error", err)
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
	ctx, cancel := context.WithTimeoutCause(ctx, spooling.After, spooling.ErrSinkSilent)
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
	return s.Parts.Spools.Remove(s.Number)
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
				if wait.For(ctx, s.Config.ShutdownTimeout/2) == nil { // the rest is for what follows
					giveUp(spooling.ErrSinkSilent)
				}
			case <-ctx.Done():
			}
		}
	}()
	return func(err error) {
		stop()
		if <-ended && (err == nil || isVerdict(err)) {
			if err := s.Parts.Spools.Remove(s.Number); err != nil { // the inventory will have passed it by
				s.Logger.Warn("failed to remove a spool that is not needed", "error", err)
			}
		}
		clear(s.early.copied.Changes)
	}
}

// beginEarly reports whether the spool has begun.
func (s *slot) beginEarly(ctx context.Context, b *change.Batch) bool {
	if !slices.ContainsFunc(b.Controls, func(c change.Control) bool { return c.Type == change.ControlSettings }) {
		// another process may forward it, with other settings
		b.Controls = append(b.Controls, change.SettingsControl(s.Config.Content.Ignores()))
	}
	(&commit.Numbering{Slot: b.Slot, Epoch: b.Epoch, Seq: b.Seq - 1, Cluster: s.Config.Cluster}).Next(b)
	err := s.beginAfter(ctx, b.Epoch, b.Seq-1, b)
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("the sink has not taken a batch for a second, and no spool could begin", "error", err)
	}
	if err == nil {
		s.Parts.Bell.Ring()
	}
	return err == nil
}

// beginAfter begins a spool after a batch, which the inventory must have, with the next one or nil.
func (s *slot) beginAfter(ctx context.Context, epoch int64, seq uint64, next *change.Batch) error {
	err := s.early.flush(ctx)
	if err == nil {
		err = s.Parts.Store.Check(ctx, s.Number, epoch, seq)
	}
	var positions []change.Position
	if err == nil {
		positions, err = s.Positions(ctx, nil)
	}
	if err == nil && (next != nil || len(positions) > 0) { // a slot without streams reads nothing, and could not be handed over
		err = s.Parts.Spools.Begin(ctx, s.Number, s.Parts.Log, positions, seq+1, next)
	}
	return err
}

// mayDrain reports whether what was read can still go into a spool that has begun: the process is to end, and the sink is away.
func (s *slot) mayDrain(parent, writing context.Context, memory *commit.Opened, err error) bool {
	_, isSpooling := memory.Memory.(*spooling.Memory)
	ends := parent.Err() != nil && ownership.SteppedDown(parent) == nil && writing.Err() == nil
	return ends && !isSpooling && mayBeAway(err) && s.Parts.Spools != nil && s.Parts.Spools.Has(s.Number)
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
		defer o.Log.Close()
		c := commit.New(&s.Slot, o, state.Epoch)
		c.Filter = commit.NewFilter(&s.Config)
		for i, b := range q.InFlight() {
			if i > 0 {
				if err := c.Commit(ctx, b); err != nil {
					return nil, err
				}
			}
			q.Done(b)
		}
		return nil, c.CommitAll(ctx, q, stopped)
	})
	return err
}
