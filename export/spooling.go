package export

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// spooling is the memory of a session that writes to a spool. It also forwards the spool, if the sink is open.
type spooling struct {
	*commit.LogMemory
	over      *overlay
	slot      *slot
	spool     *spool.Spool
	log       sinks.Log      // the spool's
	to        *commit.Opened // the sink's, or nil if it does not answer
	forwarder *forwarder     // nil if the sink does not answer

	last, delivered atomic.Uint64         // sequence numbers of batches
	oldest          atomic.Int64          // when the oldest change that the sink lacks was read, in Unix milliseconds
	why             atomic.Pointer[error] // why the sink does not accept batches, or nil if it does
	full            atomic.Bool
}

// spoolLinger is the time between batches of a spool. Nobody waits for these batches, and the sink catches up faster with fewer of
// them.
const spoolLinger = 500 * time.Millisecond

// spoolOn returns a memory that writes to the spool. to is the sink's log, or nil if it is not open.
func (s *slot) spoolOn(ctx context.Context, state *checkpoint.SlotState, to *commit.Opened, why error) (*commit.Opened, error) {
	if s.spool == nil {
		var err error
		if s.spool, err = s.beginSpool(ctx, state, why); err != nil {
			return nil, err
		}
	}
	s.sink = unknown{}
	m := &spooling{slot: s, spool: s.spool, to: to}
	log, err := s.spool.Writer(ctx, state.Epoch, s.spool.Last)
	if err == nil {
		m.log = log.Log
		m.over, err = newOverlay(ctx, s.spool, log.Memory, s.inventory.Stored(state), log.Last)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.LogMemory = commit.NewLogMemory(&s.Slot, m.over, log.Last, m.append)
	m.last.Store(log.Last)
	m.delivered.Store(max(state.Seq, s.spool.First-1))
	m.oldest.Store(s.spool.Since.UnixMilli())
	if to == nil {
		m.why.Store(&why)
		s.Logger.Warn("the sink does not take batches: they go into the spool", "next_batch", log.Last+1, "folder", s.Parts.Spools.Path, "reason", why)
		return &commit.Opened{Memory: m, Guard: m, Log: m}, nil
	}
	m.forwarder = s.newForwarder(s.spool, to, state.Epoch)
	m.forwarder.Written = m.forwarded
	s.Logger.Info("forwarding the spool; batches go into it meanwhile", "from", state.Seq+1, "to", log.Last)
	return &commit.Opened{Memory: m, Guard: m, Log: m}, nil
}

// append writes a batch to the spool. While the spool is full, it waits until the session ends.
func (m *spooling) append(ctx context.Context, b *change.Batch) (change.Offsets, error) {
	for {
		err := errSpoolFull
		if !m.spool.IsFull() {
			failpoint.Hit(failpoint.Spooling)
			_, err = m.log.Write(ctx, b)
		}
		if err == nil {
			failpoint.Hit(failpoint.Spooled)
			m.over.move(b.Positions)
			m.last.Store(b.Seq)
			m.full.Store(false)
			return nil, nil
		}
		if !errors.Is(err, errSpoolFull) && !sqlitefile.IsFull(err) {
			return nil, err
		}
		if !m.full.Swap(true) {
			m.slot.Logger.Error("the spool is full: nothing is read until the sink takes what it has, or there is room", "error", err)
		}
		if wait.For(sinks.SessionOf(ctx), time.Second) != nil {
			return nil, dependency.Tag(dependency.Sink, err)
		}
	}
}

var errSpoolFull = errors.New("it has KUBECDC_SPOOL_SIZE")

// start forwards the spool, and then waits for the sink. It ends the session when the next one can do more. wait returns when
// that has stopped.
func (m *spooling) start(writing context.Context, fail context.CancelCauseFunc) (wait func()) {
	var running sync.WaitGroup
	followed := func() {}
	if m.to != nil {
		followed = m.to.Following.Start(writing, fail)
	}
	running.Go(func() {
		defer followed()
		if m.to != nil {
			if end := m.forwardAll(writing); end != nil {
				fail(end)
				return
			}
		}
		if m.awaitSink(writing) == nil {
			fail(errSinkAnswers)
		}
	})
	return running.Wait
}

// forwardAll returns the error that ends the session, or errForwarded if all is forwarded. It returns nil if the sink may take the
// rest later.
func (m *spooling) forwardAll(writing context.Context) error {
	err := m.forwarder.run(context.WithValue(writing, unhurried{}, true), time.Time{})
	switch {
	case err == nil:
		m.slot.reopen.Reset()
		m.slot.slow = 0
		return errForwarded
	case errors.Is(err, spool.ErrUnusable), dependency.NameOf(err) == dependency.Checkpoint, fault.Is[*sinks.RefusedError](err):
		return err
	}
	if writing.Err() == nil {
		m.why.Store(&err)
		m.slot.Logger.Warn("the spool could not be forwarded further; batches go on into it", "error", err)
	}
	return nil
}

// awaitSink waits until the sink answers, and longer if it has answered before and could not be opened. The status has the reason
// why it does not answer now. At first it may have been another.
func (m *spooling) awaitSink(ctx context.Context) error {
	from := time.Now().Add(m.slot.reopen.NextBackOff())
	for {
		if err := wait.For(ctx, max(askEvery, time.Until(from))); err != nil {
			return err
		}
		asking, cancel := context.WithTimeoutCause(ctx, awayAfter, errSinkSilent)
		err := m.slot.Parts.Sink.Ping(asking)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if before := m.why.Swap(&err); fault.Public(*before) != fault.Public(err) {
			m.slot.Logger.Warn("the sink still does not take batches", "reason", err)
		}
	}
}

func (m *spooling) Check(ctx context.Context, p *batching.Prepared) error {
	return m.over.inventory.Check(ctx, p)
}

// askEvery is the time between two questions whether the sink answers again. Each other session that ends for that lets all
// watches begin anew, so only their pace becomes slower.
const askEvery = 2 * time.Second

func (m *spooling) MayBegin(_ context.Context, streams []*change.Stream) error {
	if len(streams) > 0 {
		return commit.HeldBackError{}
	}
	return nil
}

// Forget has to wait, since the inventory may lack the end of the stream.
func (m *spooling) Forget(context.Context, int64, change.StreamID) error {
	return commit.HeldBackError{}
}

func (m *spooling) Close() error {
	if m.log != nil {
		m.log.Close()
	}
	if m.to != nil {
		m.to.Log.Close()
	}
	m.spool.Close()
	return nil
}

// forwarded records that the sink has a batch.
func (m *spooling) forwarded(c live.Committed) {
	m.delivered.Store(c.Batch.Seq)
	for _, p := range c.Batch.Positions {
		m.oldest.Store(max(m.oldest.Load(), p.Time.UnixMilli()))
	}
}

// spooled returns the spool's state for a status.
func (m *spooling) spooled() live.Spool {
	s := live.Spool{Since: m.spool.Since, Oldest: time.UnixMilli(m.oldest.Load()),
		Bytes: m.spool.Bytes(), MaxBytes: m.spool.MaxBytes(),
		Batches: m.last.Load() - m.delivered.Load(), Full: m.full.Load()}
	if why := m.why.Load(); why != nil {
		s.Why = (*why).Error()
	}
	return s
}
