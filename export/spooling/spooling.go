// Package spooling is what a session does while the sink takes no batches. It writes to a spool, reads from spool and inventory
// together, and forwards the spool to the sink. Whether a spool begins, and what becomes of it, is decided by the session.
package spooling

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// Memory is the memory of a session that writes to a spool. It also forwards the spool, if the sink is open.
type Memory struct {
	*commit.LogMemory
	over      *overlay
	slot      *plan.Slot
	pace      *Pace
	spool     *spool.Spool
	log       sinks.Log      // the spool's
	to        *commit.Opened // the sink's, or nil if it does not answer
	forwarder *Forwarder     // nil if the sink does not answer

	last, delivered atomic.Uint64         // sequence numbers of batches
	oldest          atomic.Int64          // when the oldest change that the sink lacks was read, in Unix milliseconds
	why             atomic.Pointer[error] // why the sink does not accept batches, or nil if it does
	full            atomic.Bool
}

// After is how long the sink may take for a batch, or to be opened, before a spool is used.
const After = 10 * time.Second

// These errors end a session, and the next one starts at once.
var (
	ErrForwarded   = errors.New("the sink has what was in the spool")
	ErrSinkAnswers = errors.New("the sink answers again: the spool is forwarded")
)

// ErrSinkSilent is the cause when a call to the sink takes too long.
var ErrSinkSilent = errors.New("the sink does not answer")

// Pace is how often a slot asks the sink, from one session to the next.
type Pace struct {
	Slow   int                         // how often in a row the sink has answered, and was not open or took no batch in time
	Reopen *backoff.ExponentialBackOff // until a sink that answers is opened again, while batches go into a spool
}

// Linger is the time between batches of a spool. Nobody waits for these batches, and the sink catches up faster with fewer of
// them.
const Linger = 500 * time.Millisecond

// New returns a memory that writes to the spool. stored is the inventory. to is the sink's log, or nil, for a reason, if it is
// not open.
func New(ctx context.Context, s *plan.Slot, pace *Pace, sp *spool.Spool, state *checkpoint.SlotState, stored *inventory.Inventory,
	to *commit.Opened, why error) (*commit.Opened, error) {
	m := &Memory{slot: s, pace: pace, spool: sp, to: to}
	log, err := sp.Writer(ctx, state.Epoch, sp.Last)
	if err == nil {
		m.log = log.Log
		m.over, err = newOverlay(ctx, sp, log.Memory, stored, log.Last)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.LogMemory = commit.NewLogMemory(s, m.over, log.Last, m.append)
	m.last.Store(log.Last)
	m.delivered.Store(max(state.Seq, sp.First-1))
	m.oldest.Store(sp.Since.UnixMilli())
	if to == nil {
		m.why.Store(&why)
		s.Logger.Warn("the sink does not take batches: they go into the spool", "next_batch", log.Last+1, "folder",
			s.Parts.Spools.Path, "reason", why)
		return &commit.Opened{Memory: m, Guard: m, Log: m}, nil
	}
	m.forwarder = NewForwarder(s, sp, to, state.Epoch)
	m.forwarder.Written = m.forwarded
	s.Logger.Info("forwarding the spool; batches go into it meanwhile", "from", state.Seq+1, "to", log.Last)
	return &commit.Opened{Memory: m, Guard: m, Log: m}, nil
}

// append writes a batch to the spool. While the spool is full, it waits until the session ends.
func (m *Memory) append(ctx context.Context, b *change.Batch) (change.Offsets, error) {
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
			m.slot.Logger.Error("the spool is full: nothing is read until the sink takes what it has, or there is room", "error",
				err)
		}
		if wait.For(sinks.SessionOf(ctx), time.Second) != nil {
			return nil, dependency.Tag(dependency.Sink, err)
		}
	}
}

var errSpoolFull = errors.New("it has KUBECDC_SPOOL_SIZE")

// Start forwards the spool, and then waits for the sink. It ends the session when the next one can do more. wait returns when
// that has stopped.
func (m *Memory) Start(writing context.Context, fail context.CancelCauseFunc) (wait func()) {
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
			fail(ErrSinkAnswers)
		}
	})
	return running.Wait
}

// unhurried is set in a context if nobody waits for a batch that is written with it.
type unhurried struct{}

// IsUnhurried reports whether nobody waits for a batch that is written with a context.
func IsUnhurried(ctx context.Context) bool { return ctx.Value(unhurried{}) != nil }

// forwardAll returns the error that ends the session, or ErrForwarded if all is forwarded. It returns nil if the sink may take
// the rest later.
func (m *Memory) forwardAll(writing context.Context) error {
	err := m.forwarder.Run(context.WithValue(writing, unhurried{}, true), time.Time{})
	switch {
	case err == nil:
		m.pace.Reopen.Reset()
		m.pace.Slow = 0
		return ErrForwarded
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
func (m *Memory) awaitSink(ctx context.Context) error {
	from := time.Now().Add(m.pace.Reopen.NextBackOff())
	for {
		if err := wait.For(ctx, max(askEvery, time.Until(from))); err != nil {
			return err
		}
		asking, cancel := context.WithTimeoutCause(ctx, After, ErrSinkSilent)
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

func (m *Memory) Check(ctx context.Context, p *batching.Prepared) error {
	return m.over.inventory.Check(ctx, p)
}

// askEvery is the time between two questions whether the sink answers again. Each session that ends because of an answer lets all
// watches begin anew. So only the pace of such sessions becomes slower.
const askEvery = 2 * time.Second

func (m *Memory) MayBegin(_ context.Context, streams []*change.Stream) error {
	if len(streams) > 0 {
		return commit.HeldBackError{}
	}
	return nil
}

// Forget has to wait, since the inventory may lack the end of the stream.
func (m *Memory) Forget(context.Context, int64, change.StreamID) error {
	return commit.HeldBackError{}
}

func (m *Memory) Close() error {
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
func (m *Memory) forwarded(c live.Committed) {
	m.delivered.Store(c.Batch.Seq)
	for _, p := range c.Batch.Positions {
		m.oldest.Store(max(m.oldest.Load(), p.Time.UnixMilli()))
	}
}

// Spooled returns the spool's state for a status.
func (m *Memory) Spooled() live.Spool {
	s := live.Spool{Since: m.spool.Since, Oldest: time.UnixMilli(m.oldest.Load()),
		Bytes: m.spool.Bytes(), MaxBytes: m.spool.MaxBytes(),
		Batches: m.last.Load() - m.delivered.Load(), Full: m.full.Load()}
	if why := m.why.Load(); why != nil {
		s.Why = (*why).Error()
	}
	return s
}
