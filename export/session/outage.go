package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/commit"
	"kubecdc/export/spooling"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// A sink may be away for longer than the API server remembers. If it does not take a batch, or can't be opened, batches go into
// the slot's spool. They have the numbers that they would have had in the log. Invariants:
//
//  1. A session writes either to the sink or to a spool. With a spool, the sink gets batches only from there (spooling).
//  2. A spool begins right after what the sink has acknowledged, which the inventory has. If the outcome of the next batch is
//     unknown, that is the spool's first batch.
//  3. A spool is used only while it continues the inventory (spoolFits). It is removed once the inventory has all its batches.
//  4. If the sink refuses a resource, its streams are left out of the spool until the spool is removed. Then they go on from the
//     inventory.

// openMemory opens the sink, and forwards the slot's spool, if there is one. If that takes long, the session writes to the spool.
// Without a spool, the session waits for the sink if this process does not know the end of the log.
func (s *slot) openMemory(ctx context.Context, state *checkpoint.SlotState) (o *commit.Opened, err error) {
	if s.Parts.Spools == nil {
		return s.openRaisingEpoch(ctx, state, s.open)
	}
	defer func() { s.spool = nil }()
	s.spool, err = whileRenewed(ctx, s, state.Epoch,
		func(ctx context.Context) (*spool.Spool, error) { return s.openSpool(ctx, state) })
	if err != nil {
		return nil, err
	}
	gone, isAway := s.sink.(away)
	switch {
	case isAway:
		s.sink, err = gone.doubt, gone.why
	case s.spool == nil && s.sink == unknown{}:
		o, err = s.openRaisingEpoch(ctx, state, s.open)
	default:
		o, err = s.forwardFirst(ctx, state)
	}
	s.sink = follows(s.sink, state.Seq)
	continues := s.spool == nil && s.sink != unknown{} || s.spool != nil && state.Seq+1 >= s.spool.First
	switch {
	case err == nil:
		s.sink, s.pace.Slow = settled{state.Epoch, o.Seq()}, 0
		return o, nil
	case errors.Is(err, spooling.ErrMoreLeft), ctx.Err() == nil && mayBeAway(err) && continues:
		return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*commit.Opened,
			error) {
			return s.spoolOn(ctx, state, o, err)
		})
	case s.spool != nil:
		s.spool.Close()
	}
	return nil, err
}

// beginSpool makes a spool that continues the log.
func (s *slot) beginSpool(ctx context.Context, state *checkpoint.SlotState, cause error) (*spool.Spool, error) {
	first, next := unacked(s.sink)
	positions, err := s.Positions(ctx, nil)
	if err == nil {
		err = s.Parts.Spools.Begin(ctx, s.Number, s.Parts.Log, positions, first, next)
	}
	var sp *spool.Spool
	if err == nil {
		sp, err = s.openSpool(ctx, state)
	}
	if sp == nil {
		return nil, fmt.Errorf("begin a spool, since the sink does not take batches (%v): %w", cause,
			cmp.Or(err, spool.ErrUnusable))
	}
	return sp, nil
}

// spoolOn returns a memory that writes to the spool. to is the sink's log, or nil if it is not open.
func (s *slot) spoolOn(ctx context.Context, state *checkpoint.SlotState, to *commit.Opened, why error) (*commit.Opened, error) {
	if s.spool == nil {
		var err error
		if s.spool, err = s.beginSpool(ctx, state, why); err != nil {
			return nil, err
		}
	}
	s.sink = unknown{}
	return spooling.New(ctx, &s.Slot, &s.pace, s.spool, state, s.inventory.Stored(state), to, why)
}

// openSpool opens the spool of a slot. It returns nil if there is no usable spool. An unusable spool is set aside.
func (s *slot) openSpool(ctx context.Context, state *checkpoint.SlotState) (*spool.Spool, error) {
	if !s.Parts.Spools.Has(s.Number) {
		return nil, nil
	}
	sp, err := s.Parts.Spools.Open(ctx, s.Number)
	if err == nil && sp == nil {
		return nil, nil
	}
	if err == nil {
		err = sp.LeaveOut(ctx, s.refusals.Refuses)
	}
	if err == nil {
		err = s.spoolFits(ctx, sp, state.Seq)
	}
	if errors.Is(err, spool.ErrUnusable) && sp != nil && sp.Last < sp.First { // it has no batch, and the log went on
		return nil, sp.Remove()
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
	case s.Parts.Log != sp.Log:
		return fmt.Errorf("%w: it is of %s, and the sink's is %s", spool.ErrUnusable, sp.Log, s.Parts.Log)
	case seq > sp.Last:
		return fmt.Errorf("%w: the log is at batch %d, and the spool ends with %d", spool.ErrUnusable, seq, sp.Last)
	case seq+1 < sp.First: // the log is not opened yet
		return nil
	}
	have, err := s.Parts.Store.Streams(ctx)
	if err != nil {
		return dependency.Tag(dependency.Checkpoint, err)
	}
	return spoolContinues(ctx, sp, seq, have)
}

// spoolContinues returns an error unless the spool has the same positions at batch seq.
func spoolContinues(ctx context.Context, sp *spool.Spool, seq uint64, have []change.Position) error {
	want, err := sp.PositionsAt(ctx, seq)
	if err != nil {
		return err
	}
	stored := map[change.StreamID]change.Position{}
	for _, p := range have {
		stored[p.Stream] = p
	}
	for _, p := range want {
		if !samePosition(stored[p.Stream], p) {
			return fmt.Errorf("%w: batch %d of the log is another owner's: it has %s at %q, the spool's at %q", spool.ErrUnusable,
				seq,
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
	return stored.ResourceVersion == p.ResourceVersion && stored.Ended == p.Ended &&
		stored.Time.Sub(p.Time).Abs() < 2*time.Millisecond
}

// putAside renames a spool that can't be used. Its batches are not in the log, unless the API server still has the changes.
func (s *slot) putAside(sp *spool.Spool, why error) error {
	attributes := []any{"reason", why}
	if sp != nil {
		attributes = append(attributes, "first_batch", sp.First, "last_batch", sp.Last, "since",
			sp.Since.UTC().Format(time.RFC3339))
		sp.Close()
	}
	aside, err := s.Parts.Spools.PutAside(s.Number)
	s.Logger.Error("the spool can't be forwarded: it is put aside, and the slot goes on from what the sink has",
		append(attributes, "put_aside_as", aside)...)
	return err
}

// giveUpSpool sets aside the spool of the session, if it has one.
func (s *slot) giveUpSpool(why error) error {
	if s.spool == nil {
		return nil
	}
	sp := s.spool
	s.spool = nil
	return s.putAside(sp, why)
}

// forwardFirst opens the sink, and forwards the spool for some seconds. If that was all, it removes the spool, and the session
// writes to the sink. Otherwise it returns the sink's log with spooling.ErrMoreLeft, or the reason why the sink can't be used.
func (s *slot) forwardFirst(ctx context.Context, state *checkpoint.SlotState) (o *commit.Opened, err error) {
	if o, err = s.openWithin(ctx, state); err != nil || s.spool == nil {
		return o, err
	}
	return whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*commit.Opened,
		error) {
		return s.forwardTo(ctx, state, o)
	})
}

// forwardTo forwards for some seconds to an open log, and removes the spool if that was all, or if it can't be used.
func (s *slot) forwardTo(ctx context.Context, state *checkpoint.SlotState, o *commit.Opened) (*commit.Opened, error) {
	err := s.spoolFits(ctx, s.spool, state.Seq)
	if err == nil && o.Seq()+1 < s.spool.First {
		err = fmt.Errorf("%w: the log ends with batch %d, and the spool begins with %d", spool.ErrUnusable, o.Seq(),
			s.spool.First)
	}
	if err == nil {
		until := time.Now().Add(spooling.After)
		if s.pace.Slow > 0 {
			until = time.Now() // the next session continues to read, and forwards the spool without a limit
		}
		err = spooling.NewForwarder(&s.Slot, s.spool, o, state.Epoch).Run(ctx, until)
	}
	switch {
	case errors.Is(err, spooling.ErrMoreLeft):
		return o, err
	case errors.Is(err, spool.ErrUnusable):
		err = s.giveUpSpool(err)
	case mayBeAway(err):
		s.pace.Slow++
	case err == nil:
		err = s.removeSpool(o.Seq())
	}
	if err == nil {
		err = s.lostBeforeSpool(ctx, o)
	}
	if err != nil {
		o.Log.Close()
		return nil, err
	}
	return o, nil
}

// removeSpool removes the session's spool, once the sink and the checkpoint have all its batches.
func (s *slot) removeSpool(last uint64) error {
	sp := s.spool
	s.spool = nil
	s.Logger.Info("the sink has all that was in the spool", "last_batch", last, "since", sp.Since.UTC().Format(time.RFC3339))
	failpoint.Hit(failpoint.Emptied)
	err := sp.Remove()
	failpoint.Hit(failpoint.Removed)
	return err
}

// openWithin opens the sink within some seconds, during which nothing is read. It takes twice as long each time that the sink
// answers, and is not open in time. If the inventory lacks batches before the spool, it has no limit.
func (s *slot) openWithin(ctx context.Context, state *checkpoint.SlotState) (*commit.Opened, error) {
	limit := spooling.After << min(s.pace.Slow, 10)
	if s.spool != nil && state.Seq+1 < s.spool.First {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, spooling.ErrSinkSilent)
	defer cancel()
	asking, stop := context.WithTimeoutCause(ctx, spooling.After, spooling.ErrSinkSilent)
	identity, err := whileRenewed(asking, s, state.Epoch, func(ctx context.Context) (string, error) {
		if err := s.Parts.Sink.Ping(ctx); err != nil { // Ping does not wait for a server that is down
			return "", err
		}
		return s.Parts.Sink.Identity(ctx)
	})
	stop()
	if err == nil && identity != s.Parts.Log {
		other := fmt.Errorf("the log was %s, and the sink is %s", s.Parts.Log, identity)
		return nil, cmp.Or(s.Parts.Store.BindLog(ctx, identity), other)
	}
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	o, err := s.openRaisingEpoch(ctx, state, s.open)
	if err != nil && ctx.Err() != nil {
		s.pace.Slow++
		return nil, dependency.Tag(dependency.Sink, errors.Join(spooling.ErrSinkSilent, errors.New(err.Error())))
	}
	return o, err
}
