package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/sinks"
)

// slot owns the streams that hash onto its number. It works in sessions: acquire, open, roll forward, read and
// commit until something fails; then everything in memory is forgotten and the next session starts from what is
// durable. A crash and an error are the same thing to it.
type slot struct {
	number   int
	config   Config
	parts    Parts
	hub      *hub
	log      *slog.Logger
	rivals   rivals
	refusals refusals // by the sink, over all sessions
}

func newSlot(number int, config Config, parts Parts, h *hub) *slot {
	return &slot{number: number, config: config, parts: parts, hub: h, log: parts.Log.With("slot", number)}
}

// run holds sessions until the context ends (drained: nil), another replica has the slot (nil), or the checkpoint says
// that another owner has fenced this one. All else is a delay.
func (s *slot) run(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 200*time.Millisecond, 10*time.Second
	for {
		started := time.Now()
		err := s.session(ctx)
		switch {
		case isFenced(err), isForeign(err), isGone(err):
			return fmt.Errorf("slot %d: %w", s.number, err)
		case isTaken(err):
			s.log.Debug("the slot is not free any more", "reason", err)
			return nil
		case ctx.Err() != nil:
			return err
		}
		if s.noteRefusals(err) {
			continue
		}
		if time.Since(started) > time.Minute {
			retry.Reset()
		}
		delay := retry.NextBackOff()
		s.parts.Observer.Problem(s.number, err)
		s.log.Error("starting over from what is durable", "in", delay.Round(time.Millisecond), "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// isGone: the checkpoint is to be opened anew.
func isGone(err error) bool { return errors.Is(err, checkpoint.ErrGone) }

// isTaken: another replica holds the slot, or there is another layout. The balancer sees to it.
func isTaken(err error) bool {
	var held *checkpoint.HeldError
	var layout *checkpoint.LayoutError
	return errors.As(err, &held) || errors.As(err, &layout)
}

func (s *slot) session(ctx context.Context) error {
	state, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.release(state.Epoch) }()
	log, err := s.openRaised(ctx, &state, s.open)
	if err != nil {
		return s.verify(ctx, state.Epoch, err)
	}
	defer log.Close()
	var redactions *redactions
	err = s.whileRenewed(ctx, state.Epoch, func(ctx context.Context) (err error) {
		redactions, err = s.settleRedactions(ctx, state.Epoch)
		return err
	})
	if err != nil {
		return s.verify(ctx, state.Epoch, err)
	}
	s.parts.Observer.SlotHeld(s.number, state.Epoch, true)
	defer s.parts.Observer.SlotHeld(s.number, state.Epoch, false)
	s.parts.Observer.Problem(s.number, nil)
	return s.verify(ctx, state.Epoch, s.work(ctx, state, log, redactions))
}

// acquire takes the slot, if it is free.
func (s *slot) acquire(ctx context.Context) (checkpoint.SlotState, error) {
	try, cancel := context.WithTimeout(ctx, checkpointPatience(s.config))
	defer cancel()
	state, err := s.parts.Leases.Acquire(try, s.number, s.config.Owner, s.config.LeaseDuration)
	if err != nil {
		return state, dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	s.log.Info("slot acquired", "epoch", state.Epoch, "batch", state.Seq)
	return state, nil
}

// open fences the earlier owners in the sink, moves the checkpoint over what they left there, or rebuilds it, and notes what
// the sink has lost.
func (s *slot) open(ctx context.Context, state *checkpoint.SlotState) (sinks.Log, error) {
	var opened *sinks.Opened
	var err error
	s.parts.reach.Call(s.number, func() bool {
		opened, err = s.parts.Sink.Open(ctx, s.number, state.Epoch, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets, New: state.New})
		return err == nil
	})
	if err != nil {
		return nil, dependency.Tag(dependency.Sink, err)
	}
	lost, err := s.rollForward(ctx, state, opened)
	if err == nil {
		err = s.reconcile(ctx, state, opened.Log, lost)
	}
	if err != nil {
		opened.Log.Close()
		return nil, err
	}
	return opened.Log, nil
}

// work reads and commits until the context ends or something fails. When the context ends it drains: the batch
// that is being gathered is committed too, within the shutdown timeout; unless the sink does not answer here.
func (s *slot) work(parent context.Context, state checkpoint.SlotState, log sinks.Log, redactions *redactions) error {
	reading, stopReading := context.WithCancelCause(parent)
	defer stopReading(nil)
	writing, stopWriting := context.WithCancelCause(context.WithoutCancel(parent))
	defer stopWriting(nil)
	defer context.AfterFunc(parent, func() {
		if down := ownership.SteppedDown(parent); down != nil {
			stopWriting(down)
			return
		}
		time.AfterFunc(s.config.ShutdownTimeout, func() { stopWriting(ErrShutdownTimeout) })
	})()

	q := batching.New(s.config.BufferChanges, s.config.BufferBytes, s.config.Limits)
	s.parts.Observer.Buffering(s.number, q.Fill)
	defer s.parts.Observer.Buffering(s.number, nil)
	r := &reads{store: s.parts.Store}
	streams := newStreams(s, q, r, redactions, stopReading)
	go s.renew(writing, state.Epoch, stopReading)

	stopped := make(chan struct{})
	go func() {
		streams.run(reading)
		close(stopped)
	}()

	err := s.commitAll(writing, state, log, r, q, stopped)
	stopReading(err)
	stopWriting(err)
	<-stopped
	if err == nil && parent.Err() == nil {
		err = context.Cause(reading)
	}
	return err
}

// ErrShutdownTimeout: Run was told to stop and could not finish in time.
var ErrShutdownTimeout = errors.New("the shutdown timeout (KUBECDC_SHUTDOWN_TIMEOUT) ran out before the last batch was committed; it will be recovered at the next start")

func (s *slot) commitAll(ctx context.Context, state checkpoint.SlotState, log sinks.Log, r *reads, q *batching.Queue, stopped <-chan struct{}) error {
	c := &committer{slot: s.number, epoch: state.Epoch, seq: state.Seq, cluster: s.config.Cluster,
		store: s.parts.Store, reads: r, log: log, observer: s.parts.Observer, watchdog: s.parts.watchdog, reach: s.parts.reach,
		watermark: s.config.Limits.Watermark, watermarks: map[change.StreamID]time.Time{}}
	if s.config.Before {
		c.befores = newBefores(r, s.rewrites(), s.config.BodyCacheBytes)
	}
	for b := q.Next(ctx, stopped); b != nil; b = q.Next(ctx, stopped) {
		if err := c.commit(ctx, b); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = errors.Join(cause, err)
			}
			return err
		}
		q.Done(b)
	}
	return nil
}
