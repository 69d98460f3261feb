// Package session works on a slot: in sessions, each of which acquires the slot, opens the log, and then reads and commits until
// something fails. It decides what follows (sessionend.go), and when a spool begins and ends (outage.go). Start reading at
// slot.go.
package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/export/plan"
	"kubecdc/export/spooling"
	"kubecdc/export/streams"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/spool"
)

// slot works on the streams that hash to its number. It works in sessions: acquire the slot, open the log, roll the checkpoint
// forward, then read and commit until something fails. After a failure, everything in memory except what is in carriedOver is
// discarded, and the next session starts from what is durable. So a crash and an error have the same effect.
type slot struct {
	plan.Slot
	spool *spool.Spool // set while a session opens the sink that is to get it
	early early
	carriedOver
}

// carriedOver is what a slot remembers of its earlier sessions. Nothing in it says what was written, so a crash that loses it
// loses no data.
type carriedOver struct {
	epochRaises []time.Time
	refusals    streams.Refusals // by the sink
	inventory   inventory.Slot
	sink        sinkState
	pace        spooling.Pace
}

func newSlot(number int, config plan.Config, parts *plan.Watched, selected *plan.Selections) *slot {
	s := &slot{Slot: plan.Slot{Number: number, Config: config, Parts: parts, Selected: selected,
		Logger: parts.Logger.With("slot", number)},
		carriedOver: carriedOver{sink: unknown{}, refusals: streams.Refusals{}}}
	s.pace.Reopen = backoff.NewExponentialBackOff()
	s.pace.Reopen.InitialInterval, s.pace.Reopen.MaxInterval = time.Second, 30*time.Second
	s.inventory = inventory.Slot{
		Settings: inventory.Settings{Slot: number, Bodies: config.Before, CacheBytes: config.BodyCacheBytes,
			Interval: config.CheckpointInterval, CommitBytes: config.CheckpointBytes, Owns: s.Owns,
			Redactor: plan.Cached(s.Config.BodyRedactor)},
		Parts:   inventory.Parts{Store: parts.Store, State: parts.State, Watchdog: parts.Watchdog, Logger: s.Logger},
		Spooled: s.spooledAfter}
	return s
}

// Run works on a slot, whose streams are in the selection. It returns nil if the context ends and the slot is drained, or if
// another replica holds the slot. It returns an error if the error makes another session pointless. The most important case is
// that the checkpoint says that another owner has fenced this one.
func Run(ctx context.Context, number int, config plan.Config, parts *plan.Watched, selected *plan.Selections) error {
	return newSlot(number, config, parts, selected).run(ctx)
}

// run runs one session after another.
func (s *slot) run(ctx context.Context) error {
	defer s.Parts.State.SlotStreams(s.Number, nil)
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 200*time.Millisecond, 10*time.Second
	for {
		started := time.Now()
		err := s.session(ctx)
		next, why := outcomeOf(err, s.sink, ctx.Err() != nil)
		isNews := s.learn(err)
		switch next {
		case fenced, final:
			return fmt.Errorf("slot %d: %w", s.Number, err)
		case handOver:
			s.Logger.Debug("the slot is not available", "reason", err)
			return nil
		case drained, stopped:
			return err
		case spoolNext:
			s.sink = failed(s.sink, err)
			s.Parts.State.Problem(s.Number, err)
			continue
		}
		if next == atOnce && isNews {
			continue
		}
		if time.Since(started) > time.Minute {
			retry.Reset()
		}
		delay := retry.NextBackOff()
		s.Parts.State.Problem(s.Number, err)
		s.Logger.Error("the session failed: starting the next one from what is durable",
			"in", delay.Round(time.Millisecond), "error", err, "why", why)
		if wait.For(ctx, delay) != nil {
			return nil
		}
	}
}

// learn takes from the error of a session what the next one needs, and reports whether that is new.
func (s *slot) learn(err error) (isNew bool) {
	s.inventory.Learn(err)
	return s.refusals.Record(err, s.Logger) || !fault.Is[*sinks.RefusedError](err)
}

func (s *slot) session(ctx context.Context) error {
	state, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.release(state.Epoch) }()
	s.sink = acquired(s.sink, &state)
	s.reportStreams(ctx)
	memory, err := s.openMemory(ctx, &state)
	if err != nil {
		return s.verifyFencing(ctx, state.Epoch, err)
	}
	defer memory.Log.Close()
	rules, err := whileRenewed(ctx, s, state.Epoch, func(ctx context.Context) (*streams.StoredRules, error) {
		return streams.Redact(ctx, &s.Slot, state.Epoch)
	})
	if err != nil {
		return s.verifyFencing(ctx, state.Epoch, err)
	}
	s.Parts.State.SlotHeld(s.Number, state.Epoch, true)
	defer s.Parts.State.SlotHeld(s.Number, state.Epoch, false)
	s.Parts.State.Problem(s.Number, nil)
	return s.verifyFencing(ctx, state.Epoch, s.work(ctx, state.Epoch, memory, rules))
}

// acquire makes this process the owner of the slot, if the slot is free.
func (s *slot) acquire(ctx context.Context) (checkpoint.SlotState, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Config.CheckpointTimeout())
	defer cancel()
	state, err := s.Parts.Store.Acquire(ctx, s.Number, s.Config.Owner, s.Config.LeaseDuration)
	if err == nil {
		s.Logger.Info("slot acquired", "epoch", state.Epoch)
	}
	return state, dependency.TagCheckpoint(err)
}

// reportStreams reports the streams' positions before the sink is asked for anything, since the streams fall behind while it does
// not answer. A failure is left to the session.
func (s *slot) reportStreams(ctx context.Context) {
	positions, err := s.Positions(ctx, nil)
	if err != nil {
		return
	}
	if newest, _ := s.Selected.Latest(); newest != nil {
		for _, r := range newest.Resources {
			for _, stream := range s.Config.StreamsOf(r) {
				if s.Owns(stream.ID()) {
					positions = append(positions, change.Position{Stream: stream.ID()})
				}
			}
		}
	}
	s.Parts.State.SlotStreams(s.Number, positions)
}

// work reads and commits until the context ends or something fails. When the context ends, it drains: what was read is still
// committed, within the shutdown timeout. It does not drain if this replica steps down, because the sink does not answer then.
func (s *slot) work(parent context.Context, epoch int64, memory *commit.Opened, rules *streams.StoredRules) error {
	reading, stopReading := context.WithCancelCause(parent)
	defer stopReading(nil)
	writing, stopWriting := context.WithCancelCause(sinks.WithSession(context.WithoutCancel(parent), reading))
	defer stopWriting(nil)
	defer context.AfterFunc(parent, func() {
		if down := ownership.SteppedDown(parent); down != nil {
			stopWriting(down)
			return
		}
		time.AfterFunc(s.Config.ShutdownTimeout, func() { stopWriting(ErrShutdownTimeout) })
	})()

	limits, wait := s.Config.Limits, func() {}
	if spool, isSpooling := memory.Memory.(*spooling.Memory); isSpooling {
		limits.Linger = max(limits.Linger, spooling.Linger)
		wait = spool.Start(writing, stopReading)
	} else if memory.Following != nil {
		s.early.flush = memory.Following.Flush
		defer func() { s.early.flush, s.early.empty = nil, false }()
		wait = memory.Following.Start(writing, stopReading)
	}
	q := batching.New(s.Config.BufferChanges, s.Config.BufferBytes, limits)
	s.Parts.State.Buffering(s.Number, func() live.Fill { return s.fill(q, memory) })
	go s.renew(writing, epoch, stopReading)

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		streams.New(&s.Slot, s.refusals, epoch, q, memory, rules, stopReading).Run(reading)
	}()
	stopListening := s.listen(writing)
	err := s.commitAll(writing, epoch, memory, q, stopped)
	stopListening()
	err = s.finish(writing, memory.Following, err)
	if s.mayDrain(parent, writing, memory, err) {
		err = s.drain(writing, q, stopped, err)
	}
	stopReading(err)
	stopWriting(err)
	<-stopped
	wait()
	if err == nil && parent.Err() == nil {
		err = context.Cause(reading)
	}
	return err
}

// fill returns what has been read and is not durable yet.
func (s *slot) fill(q *batching.Queue, memory *commit.Opened) live.Fill {
	f := live.Fill{MaxChanges: int64(s.Config.BufferChanges), MaxBytes: s.Config.BufferBytes, Streams: q.Since()}
	if f.Changes, f.Bytes = q.Pending(); memory.Following != nil {
		f.Pending = memory.Following.Pending()
	}
	if spool, isSpooling := memory.Memory.(*spooling.Memory); isSpooling {
		f.Spool = spool.Spooled()
	}
	return f
}

// finish flushes the inventory when a session ends, even after an error, because the log has the written batches. Otherwise the
// next session would read them back. That takes longer, and a sink that has just refused a topic may refuse such a read, too.
func (s *slot) finish(ctx context.Context, f commit.Following, err error) error {
	switch {
	case f == nil:
		return err
	case err == nil:
		return f.Flush(ctx)
	}
	limit := 2 * time.Second
	if mayBeAway(err) {
		limit = spooling.After // a spool can begin only after that
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if flushErr := f.Flush(ctx); flushErr != nil {
		s.Logger.Debug("failed to commit what was pending for the checkpoint; the next session reads it back", "error", flushErr)
	}
	return err
}

// ErrShutdownTimeout: the last batch could not be committed in time after Run's context had ended.
var ErrShutdownTimeout = errors.New("the last batch could not be committed within the shutdown timeout " +
	"(KUBECDC_SHUTDOWN_TIMEOUT); the next start recovers it")

func (s *slot) commitAll(ctx context.Context, epoch int64, memory *commit.Opened, q *batching.Queue,
	stopped <-chan struct{}) error {
	c := commit.New(&s.Slot, memory, epoch)
	c.Filter = commit.NewFilter(&s.Config)
	if err := c.CommitAll(ctx, q, stopped); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}
