package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// A sink may be away for longer than the API server remembers. So when it does not take a batch, the batches go on into the slot's spool,
// under the numbers that they would have had. Invariants:
//
//  1. A session writes either to the sink or to a spool. With a spool, the sink gets batches from there alone (forward.go).
//  2. A spool begins with the batch whose outcome is unknown. The inventory has all batches before that.
//  3. A spool is used only while it goes on from what the inventory has (spoolFits), and removed once that has all of it.

// awayAfter is how long the sink may take for a batch, or to be opened, before a spool is used.
const awayAfter = 10 * time.Second

// spoolLinger is the time between batches of a spool, of which nobody waits for any: the sink catches up faster with fewer of them.
const spoolLinger = 500 * time.Millisecond

// Errors that end a session, and that the next one follows at once.
var (
	errSpooled     = errors.New("the sink does not take the batch: it is in the spool, and so are those that follow")
	errForwarded   = errors.New("the sink has what was in the spool")
	errSinkAnswers = errors.New("the sink answers again: the spool is forwarded")
)

// goesOn reports whether a session has ended only for the next one to work with or without a spool.
func goesOn(err error) bool {
	return errors.Is(err, errSpooled) || errors.Is(err, errForwarded) || errors.Is(err, errSinkAnswers)
}

// beginSpool puts the batch that a write has failed with into a new spool. It returns the cause if that can't be done.
func (s *slot) beginSpool(ctx context.Context, m Memory, b *change.Batch, cause error) error {
	if ctx.Err() != nil || !mayBeAway(cause) || hasStub(b) {
		return cause
	}
	flush, cancel := context.WithTimeout(ctx, awayAfter)
	err := m.Flush(flush)
	cancel()
	if err != nil || m.Seq()+1 != b.Seq {
		return errors.Join(cause, err)
	}
	base, err := s.positionsOf(ctx, nil)
	if err != nil {
		return errors.Join(cause, err)
	}
	sp, err := s.parts.Spools.Create(ctx, s.number, s.parts.log, base)
	if err == nil {
		var opened *sinks.Opened
		if opened, err = sp.Writer(ctx, b.Epoch, b.Seq-1); err == nil {
			failpoint.Hit(failpoint.Spooling)
			_, err = opened.Log.Write(ctx, b)
			failpoint.Hit(failpoint.Spooled)
			opened.Log.Close()
		}
		sp.Close()
	}
	if err != nil {
		return errors.Join(cause, fmt.Errorf("begin a spool: %w", err))
	}
	s.logger.Warn("the sink does not take batches: they go into the spool", "batch", b.Seq, "folder", s.parts.Spools.Path, "reason", cause)
	return errSpooled
}

// mayBeAway reports whether the sink may take the batch later, from whoever owns the slot.
func mayBeAway(err error) bool {
	return dependency.Of(err) == dependency.Sink && !isFinal(err) && !errors.Is(err, sinks.ErrInvalidWriter) &&
		!fault.Is[*sinks.RefusedError](err) && !fault.Is[*sinks.LostTailError](err) && !fault.Is[*sinks.NewerEpochError](err)
}

// keepsSpooling reports whether the spool can be forwarded later. A refused resource holds up the others.
func keepsSpooling(err error) bool { return mayBeAway(err) || fault.Is[*sinks.RefusedError](err) }

// hasStub reports whether the sink has put a stub into a batch, whose record it has not written.
func hasStub(b *change.Batch) bool {
	for i := range b.Changes {
		if change.IsStub(b.Changes[i].After) {
			return true
		}
	}
	return false
}

// openMemory opens the sink, and forwards the slot's spool, if there is one. If that takes long, the session writes to the spool.
func (s *slot) openMemory(ctx context.Context, state *checkpoint.SlotState) (o *opened, err error) {
	if s.parts.Spools != nil && s.parts.Spools.Has(s.number) {
		s.spool, err = whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*spool.Spool, error) { return s.openSpool(ctx, state) })
		if err != nil {
			return nil, err
		}
	}
	if s.spool == nil {
		return s.openRaisingEpoch(ctx, state, s.open)
	}
	defer func() { s.spool = nil }()
	sp := s.spool
	o, err = s.forwardFirst(ctx, state)
	switch {
	case err == nil:
		return o, nil
	case errors.Is(err, errMoreLeft), ctx.Err() == nil && keepsSpooling(err) && state.Seq+1 >= sp.First:
		return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*opened, error) { return s.spoolOn(ctx, state, o, err) })
	case errors.Is(err, spool.ErrUnusable):
		return nil, errors.Join(err, s.putAside(sp, err))
	}
	sp.Close()
	return nil, err
}

// openSpool opens the spool of a slot. nil: it can't be used, and is put aside.
func (s *slot) openSpool(ctx context.Context, state *checkpoint.SlotState) (*spool.Spool, error) {
	sp, err := s.parts.Spools.Open(ctx, s.number)
	if fault.Is[*fault.InUseError](err) { // by another exporter on this machine, that has lost the slot
		return nil, nil
	}
	if err == nil && sp == nil {
		return nil, nil
	}
	if err == nil {
		err = s.spoolFits(ctx, sp, state.Seq)
	}
	if errors.Is(err, spool.ErrUnusable) || fault.Is[*sinks.OtherClusterError](err) {
		return nil, s.putAside(sp, err)
	}
	if err != nil && sp != nil {
		sp.Close()
	}
	return sp, err
}

// spoolFits returns an error if the log, of which the inventory has the batches up to seq, is not what the spool goes on from: then
// another owner has written to it.
func (s *slot) spoolFits(ctx context.Context, sp *spool.Spool, seq uint64) error {
	switch {
	case s.parts.log != "" && s.parts.log != sp.Log:
		return fmt.Errorf("%w: it is of %s, and the sink's is %s", spool.ErrUnusable, sp.Log, s.parts.log)
	case seq > sp.Last:
		return fmt.Errorf("%w: the log is at batch %d, and the spool ends with %d", spool.ErrUnusable, seq, sp.Last)
	case seq+1 < sp.First: // the log is not opened yet
		return nil
	}
	want, err := sp.PositionsAt(ctx, seq)
	if err != nil {
		return err
	}
	have, err := s.parts.Store.Streams(ctx)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	at := map[change.StreamID]change.Position{}
	for _, p := range have {
		at[p.Stream] = p
	}
	for _, p := range want {
		if !samePosition(at[p.Stream], p) {
			return fmt.Errorf("%w: batch %d of the log is another owner's: it has %s at %q, the spool's at %q", spool.ErrUnusable, seq,
				p.Stream, at[p.Stream].ResourceVersion, p.ResourceVersion)
		}
	}
	return nil
}

// samePosition compares what a log and an inventory have. They store times with different precision.
func samePosition(stored, p change.Position) bool {
	if stored.Stream == "" {
		return p.Ended != "" // it was removed, or forgotten since
	}
	return stored.ResourceVersion == p.ResourceVersion && stored.Ended == p.Ended && stored.Time.Sub(p.Time).Abs() < 2*time.Millisecond
}

// putAside renames a spool that can't be used. What only it has is lost to the log, unless the API server still has it.
func (s *slot) putAside(sp *spool.Spool, why error) error {
	attributes := []any{"reason", why}
	if sp != nil {
		attributes = append(attributes, "first_batch", sp.First, "last_batch", sp.Last, "since", sp.Since.UTC().Format(time.RFC3339))
		sp.Close()
	}
	aside, err := s.parts.Spools.PutAside(s.number)
	s.logger.Error("the spool can't be forwarded: it is put aside, and the slot goes on from what the sink has",
		append(attributes, "put_aside_as", aside)...)
	return err
}

// forwardFirst opens the sink, and forwards for some seconds what the spool has. If that was all, the spool is removed, and the session
// writes to the sink. It returns the sink's log with errMoreLeft, or what keeps the sink from being used.
func (s *slot) forwardFirst(ctx context.Context, state *checkpoint.SlotState) (o *opened, err error) {
	if o, err = s.openWithin(ctx, state); err != nil || s.spool == nil {
		return o, err
	}
	return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*opened, error) { return s.forwardTo(ctx, state, o) })
}

// forwardTo forwards for some seconds to a log that is open, and removes the spool if that was all.
func (s *slot) forwardTo(ctx context.Context, state *checkpoint.SlotState, o *opened) (*opened, error) {
	err := s.spoolFits(ctx, s.spool, state.Seq)
	if err == nil && state.Seq+1 < s.spool.First {
		err = fmt.Errorf("%w: the log ends with batch %d, and the spool begins with %d", spool.ErrUnusable, state.Seq, s.spool.First)
	}
	if errors.Is(err, spool.ErrUnusable) {
		return o, s.putAside(s.spool, err)
	}
	if err == nil {
		err = newForwarder(s, s.spool, o, state.Epoch).run(ctx, time.Now().Add(awayAfter))
	}
	if err == nil {
		s.logger.Info("the sink has all that was in the spool", "last_batch", o.Seq(), "since", s.spool.Since.UTC().Format(time.RFC3339))
		failpoint.Hit(failpoint.Emptied)
		err = s.spool.Remove()
		failpoint.Hit(failpoint.Removed)
	}
	if err != nil && !errors.Is(err, errMoreLeft) {
		o.log.Close()
		return nil, err
	}
	return o, err
}

// openWithin opens the sink within some seconds. It takes more the next time if the sink has answered, as a long tail is rolled forward, and
// as much as it needs if the inventory lacks what is before the spool.
func (s *slot) openWithin(ctx context.Context, state *checkpoint.SlotState) (*opened, error) {
	limit := max(awayAfter, s.patience)
	if state.Seq+1 < s.spool.First {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSinkSilent)
	defer cancel()
	asking, stop := context.WithTimeoutCause(ctx, awayAfter, errSinkSilent)
	identity, err := whileRenewed(asking, s, state.Epoch, s.parts.Sink.Identity)
	stop()
	if err == nil && identity != s.spool.Log {
		other := fmt.Errorf("the spool is of %s, and the sink is %s", s.spool.Log, identity)
		return nil, cmp.Or(s.parts.Store.BindLog(ctx, identity), other)
	}
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	o, err := s.openRaisingEpoch(ctx, state, s.open)
	if err != nil && ctx.Err() != nil {
		s.patience = 2 * limit
		return nil, dependency.Tag(dependency.Sink, errors.Join(errSinkSilent, errors.New(err.Error())))
	}
	s.patience = 0
	return o, err
}

// giveUpSpool puts the spool aside if the log has lost something: its next batch is the record of that.
func (s *slot) giveUpSpool(loss *sinks.LostTailError) error {
	if s.spool == nil {
		return nil
	}
	sp := s.spool
	s.spool = nil
	return s.putAside(sp, loss)
}

var errSinkSilent = errors.New("the sink does not answer")

// spoolOn makes a memory that writes to the spool. to is the sink's log, if that is open.
func (s *slot) spoolOn(ctx context.Context, state *checkpoint.SlotState, to *opened, why error) (*opened, error) {
	m := &spooling{slot: s, spool: s.spool, to: to, state: state}
	base, is := (*inventory.Inventory)(nil), false
	if to != nil {
		base, is = to.Memory.(*inventory.Inventory)
		m.forwarder = newForwarder(s, s.spool, to, state.Epoch)
		m.forwarder.written = m.forwarded
	}
	if !is {
		base = s.inventory.Stored(state)
	}
	log, err := s.spool.Writer(ctx, state.Epoch, s.spool.Last)
	if err == nil {
		m.over, err = newOverlay(ctx, s.spool, log.Memory, base, log.Last)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.log = log.Log
	m.logMemory = &logMemory{Memory: m.over, slot: s, seq: log.Last, write: m.append}
	m.last.Store(log.Last)
	m.delivered.Store(max(base.Seq(), s.spool.First-1))
	m.oldest.Store(s.spool.Since.UnixMilli())
	if to == nil {
		s.logger.Warn("the sink does not answer: batches go into the spool", "next_batch", log.Last+1, "reason", why)
	} else {
		s.logger.Info("forwarding the spool; batches go into it meanwhile", "from", base.Seq()+1, "to", log.Last)
	}
	return &opened{Memory: m, log: m}, nil
}

// spooling is the memory of a session that writes to a spool.
type spooling struct {
	*logMemory
	over      *overlay
	slot      *slot
	spool     *spool.Spool
	log       sinks.Log // the spool's
	state     *checkpoint.SlotState
	to        *opened    // nil: the sink does not answer
	forwarder *forwarder // nil likewise

	last, delivered atomic.Uint64 // batches
	oldest          atomic.Int64  // when that was read which the sink does not have, in Unix milliseconds
	full            atomic.Bool
}

// append writes a batch to the spool. While that is full, it waits until the session ends.
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
			m.slot.logger.Error("the spool is full: nothing is read until the sink takes what it has, or there is room", "error", err)
		}
		if wait.For(sinks.SessionOf(ctx), time.Second) != nil {
			return nil, dependency.Tag(dependency.Sink, err)
		}
	}
}

var errSpoolFull = errors.New("it has KUBECDC_SPOOL_SIZE")

// Start forwards the spool, and then waits for the sink: it ends the session when the next one can do more.
func (m *spooling) Start(writing context.Context, fail context.CancelCauseFunc) <-chan struct{} {
	stopped := make(chan struct{})
	followed := (<-chan struct{})(stopped)
	if m.to != nil {
		followed = m.to.Start(writing, fail)
	}
	go func() {
		defer close(stopped)
		if m.to != nil {
			defer func() { <-followed }()
			err := m.forwarder.run(writing, time.Time{})
			switch {
			case err == nil:
				m.slot.reopen.Reset()
				fail(errForwarded)
				return
			case errors.Is(err, spool.ErrUnusable), dependency.Of(err) == dependency.Checkpoint:
				fail(err)
				return
			case writing.Err() == nil:
				m.slot.logger.Warn("the spool could not be forwarded further; batches go on into it", "error", err)
			}
		}
		if m.awaitSink(writing) == nil {
			fail(errSinkAnswers)
		}
	}()
	return stopped
}

// awaitSink waits until the sink answers.
func (m *spooling) awaitSink(ctx context.Context) error {
	for {
		if err := wait.For(ctx, m.slot.reopen.NextBackOff()); err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, awayAfter)
		err := m.slot.parts.Sink.Ping(asking)
		cancel()
		if err == nil {
			return nil
		}
	}
}

func (m *spooling) Check(ctx context.Context, p *batching.Prepared) error {
	return m.over.base.Check(ctx, p)
}
func (m *spooling) Pending() int64 { return m.over.base.Pending() }

// heldBackError: only the sink knows whether the log has objects of a stream that begins.
type heldBackError struct{}

func (heldBackError) Error() string {
	return "the stream begins when the sink answers: the log may have objects of it"
}

func (m *spooling) MayBegin(_ context.Context, streams []*change.Stream) error {
	if len(streams) > 0 {
		return heldBackError{}
	}
	return nil
}

// Forget has to wait, since the inventory may not have the end of the stream.
func (m *spooling) Forget(context.Context, int64, change.StreamID) error { return heldBackError{} }

func (m *spooling) Close() error {
	if m.log != nil {
		m.log.Close()
	}
	if m.to != nil {
		m.to.log.Close()
	}
	m.spool.Close()
	return nil
}

// forwarded notes that the sink has a batch.
func (m *spooling) forwarded(b *change.Batch) {
	m.delivered.Store(b.Seq)
	for _, p := range b.Positions {
		m.oldest.Store(max(m.oldest.Load(), p.Time.UnixMilli()))
	}
}

// spooled is what a status shows.
func (m *spooling) spooled() live.Spool {
	return live.Spool{Since: m.spool.Since, Oldest: time.UnixMilli(m.oldest.Load()), Bytes: m.spool.Bytes(), MaxBytes: m.slot.parts.Spools.MaxBytes,
		Batches: m.last.Load() - m.delivered.Load(), Full: m.full.Load(), Forwarding: m.to != nil}
}
