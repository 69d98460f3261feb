package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// A sink may be away for longer than the API server remembers. So if it does not accept a batch, this and later batches go into the
// slot's spool. They have the numbers that they would have had in the log. Invariants:
//
//  1. A session writes either to the sink or to a spool. With a spool, the sink gets batches only from there (forward.go).
//  2. A spool begins with the batch whose outcome is unknown. The inventory has all batches before that.
//  3. A spool is used only while it continues the inventory (spoolFits). It is removed once the inventory has all its batches.
//  4. If the sink refuses a resource, its streams are left out of the spool until the spool is removed. Then they go on from the
//     inventory.

// awayAfter is how long the sink may take for a batch, or to be opened, before a spool is used.
const awayAfter = 10 * time.Second

// These errors end a session, and the next one starts at once.
var (
	errSpooled     = errors.New("the sink does not take the batch: it is in the spool, and so are those that follow")
	errForwarded   = errors.New("the sink has what was in the spool")
	errSinkAnswers = errors.New("the sink answers again: the spool is forwarded")
)

// goesOn reports whether a session has ended only because the next one uses a spool, or no longer uses it.
func goesOn(err error) bool {
	return errors.Is(err, errSpooled) || errors.Is(err, errForwarded) || errors.Is(err, errSinkAnswers)
}

var errSinkSilent = errors.New("the sink does not answer")

// mayBeAway reports whether the sink may accept the batch later, from any owner of the slot.
func mayBeAway(err error) bool {
	return dependency.NameOf(err) == dependency.Sink && !isFinal(err) && !errors.Is(err, sinks.ErrInvalidWriter) &&
		!fault.Is[*sinks.RefusedError](err) && !fault.Is[*sinks.LostTailError](err) && !fault.Is[*sinks.NewerEpochError](err)
}

// beginSpool puts the batch of a failed write into a new spool. It returns cause if that can't be done.
func (s *slot) beginSpool(ctx context.Context, m Memory, b *change.Batch, cause error) error {
	if ctx.Err() != nil || !mayBeAway(cause) {
		return cause
	}
	if err := s.createSpool(ctx, m, b); err != nil {
		return errors.Join(cause, fmt.Errorf("begin a spool: %w", err))
	}
	s.logger.Warn("the sink does not take batches: they go into the spool", "batch", b.Seq, "folder", s.parts.Spools.Path, "reason", cause)
	return errors.Join(errSpooled, cause)
}

func (s *slot) createSpool(ctx context.Context, m Memory, b *change.Batch) error {
	base, err := s.before(ctx, m, b)
	if err != nil {
		return err
	}
	sp, err := s.parts.Spools.Create(ctx, s.number, s.parts.log, base)
	if err != nil {
		return err
	}
	defer sp.Close()
	opened, err := sp.Writer(ctx, b.Epoch, b.Seq-1)
	if err != nil {
		return err
	}
	defer opened.Log.Close()
	failpoint.Hit(failpoint.Spooling)
	_, err = opened.Log.Write(ctx, b)
	failpoint.Hit(failpoint.Spooled)
	return err
}

// before returns the positions before a batch, once the inventory has all batches before it.
func (s *slot) before(ctx context.Context, m Memory, b *change.Batch) ([]change.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, awayAfter)
	defer cancel()
	if err := m.Flush(ctx); err != nil {
		return nil, err
	}
	if m.Seq()+1 != b.Seq {
		return nil, fmt.Errorf("the checkpoint is at batch %d, and not before batch %d", m.Seq(), b.Seq)
	}
	return s.positionsOf(ctx, nil)
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
	case errors.Is(err, errMoreLeft), ctx.Err() == nil && mayBeAway(err) && state.Seq+1 >= sp.First:
		return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*opened, error) { return s.spoolOn(ctx, state, o, err) })
	case errors.Is(err, spool.ErrUnusable):
		return nil, errors.Join(err, s.putAside(sp, err))
	}
	sp.Close()
	return nil, err
}

// openSpool opens the spool of a slot. It returns nil if there is none that can be used. An unusable one is set aside.
func (s *slot) openSpool(ctx context.Context, state *checkpoint.SlotState) (*spool.Spool, error) {
	sp, err := s.parts.Spools.Open(ctx, s.number)
	if fault.Is[*fault.InUseError](err) { // by another exporter on this machine that has lost the slot
		return nil, nil
	}
	if err == nil && sp == nil {
		return nil, nil
	}
	if err == nil {
		err = sp.LeaveOut(ctx, s.refusals.refuses)
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

// spoolFits returns an error if the spool does not continue the log up to batch seq, which the inventory has. Another owner has
// then written to the log.
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
	stored := map[change.StreamID]change.Position{}
	for _, p := range have {
		stored[p.Stream] = p
	}
	for _, p := range want {
		if !samePosition(stored[p.Stream], p) {
			return fmt.Errorf("%w: batch %d of the log is another owner's: it has %s at %q, the spool's at %q", spool.ErrUnusable, seq,
				p.Stream, stored[p.Stream].ResourceVersion, p.ResourceVersion)
		}
	}
	return nil
}

// samePosition compares a position in the inventory with one in a log. They store times with different precision.
func samePosition(stored, p change.Position) bool {
	if stored.Stream == "" {
		return p.Ended != "" // it was removed, or forgotten since
	}
	return stored.ResourceVersion == p.ResourceVersion && stored.Ended == p.Ended && stored.Time.Sub(p.Time).Abs() < 2*time.Millisecond
}

// putAside renames a spool that can't be used. Its batches are not in the log, unless the API server still has the changes.
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

// giveUpSpool sets the spool aside if the log has lost records, since its next batch is the record of that.
func (s *slot) giveUpSpool(loss *sinks.LostTailError) error {
	if s.spool == nil {
		return nil
	}
	sp := s.spool
	s.spool = nil
	return s.putAside(sp, loss)
}

// forwardFirst opens the sink, and forwards the spool for some seconds. If that was all, it removes the spool, and the session
// writes to the sink. Otherwise it returns the sink's log with errMoreLeft, or the reason why the sink can't be used.
func (s *slot) forwardFirst(ctx context.Context, state *checkpoint.SlotState) (o *opened, err error) {
	if o, err = s.openWithin(ctx, state); err != nil || s.spool == nil {
		return o, err
	}
	return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*opened, error) { return s.forwardTo(ctx, state, o) })
}

// forwardTo forwards for some seconds to an open log, and removes the spool if that was all.
func (s *slot) forwardTo(ctx context.Context, state *checkpoint.SlotState, o *opened) (*opened, error) {
	err := s.spoolFits(ctx, s.spool, state.Seq)
	if err == nil && state.Seq+1 < s.spool.First {
		err = fmt.Errorf("%w: the log ends with batch %d, and the spool begins with %d", spool.ErrUnusable, state.Seq, s.spool.First)
	}
	if errors.Is(err, spool.ErrUnusable) {
		return o, s.putAside(s.spool, err)
	}
	if err == nil {
		until := time.Now().Add(awayAfter)
		if s.slow {
			until = time.Now() // the session that reads on forwards the spool, without a limit
		}
		err = s.newForwarder(s.spool, o, state.Epoch).run(ctx, until)
		s.slow = s.slow || mayBeAway(err)
	}
	if err == nil {
		s.slow = false
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

// openWithin opens the sink within some seconds, during which nothing is read. It takes more time if the sink is slow. If the
// inventory lacks batches before the spool, it has no limit.
func (s *slot) openWithin(ctx context.Context, state *checkpoint.SlotState) (*opened, error) {
	limit := awayAfter
	switch {
	case state.Seq+1 < s.spool.First:
		limit = math.MaxInt64
	case s.slow:
		limit = 3 * awayAfter
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSinkSilent)
	defer cancel()
	asking, stop := context.WithTimeoutCause(ctx, awayAfter, errSinkSilent)
	identity, err := whileRenewed(asking, s, state.Epoch, func(ctx context.Context) (string, error) {
		if err := s.parts.Sink.Ping(ctx); err != nil { // Ping does not wait for a server that is down
			return "", err
		}
		return s.parts.Sink.Identity(ctx)
	})
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
		s.slow = true
		return nil, dependency.Tag(dependency.Sink, errors.Join(errSinkSilent, errors.New(err.Error())))
	}
	return o, err
}
