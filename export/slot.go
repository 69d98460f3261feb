package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"kubecdc/checkpoint"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// slot owns the streams that hash onto its number. It works in sessions: acquire, open, roll forward, read and
// commit until something fails; then everything in memory is forgotten and the next session starts from what is
// durable. A crash and an error are the same thing to it.
type slot struct {
	number int
	config Config
	parts  Parts
	hub    *hub
	log    *slog.Logger
}

// run holds sessions until the context ends (drained: nil) or another owner has fenced this one.
func (s *slot) run(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 200*time.Millisecond, 10*time.Second
	for {
		started := time.Now()
		err := s.session(ctx)
		switch {
		case errors.Is(err, checkpoint.ErrFenced) || errors.Is(err, sinks.ErrFenced):
			return fmt.Errorf("slot %d: %w", s.number, err)
		case ctx.Err() != nil:
			return err
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

func (s *slot) session(ctx context.Context) error {
	state, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release(state.Epoch)
	log, recovered, err := s.parts.Sink.Open(ctx, s.number, state.Epoch, sinks.Durable{Seq: state.Seq, Offsets: state.Offsets})
	var lost *sinks.LostTailError
	if err != nil && !(errors.As(err, &lost) && log != nil) {
		return fmt.Errorf("open the log of slot %d: %w", s.number, err)
	}
	defer log.Close()
	if err := s.rollForward(ctx, &state, recovered); err != nil {
		return err
	}
	s.parts.Observer.SlotHeld(s.number, state.Epoch, true)
	defer s.parts.Observer.SlotHeld(s.number, state.Epoch, false)
	s.parts.Observer.Problem(s.number, nil)
	return s.work(ctx, state, log, lost)
}

// acquire waits until the slot is free, and takes it.
func (s *slot) acquire(ctx context.Context) (checkpoint.SlotState, error) {
	told := false
	for {
		state, err := s.parts.Store.Acquire(ctx, s.number, s.config.Owner, s.config.LeaseDuration)
		var held *checkpoint.HeldError
		if !errors.As(err, &held) {
			if err != nil {
				return state, fmt.Errorf("acquire slot %d: %w", s.number, err)
			}
			s.log.Info("slot acquired", "epoch", state.Epoch, "batch", state.Seq)
			return state, nil
		}
		if !told {
			told = true
			s.log.Info("waiting for the slot", "owner", held.Owner, "until", held.Until)
			s.parts.Observer.Problem(s.number, held)
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-time.After(s.config.LeaseDuration / 10):
		}
	}
}

// release ends the lease so that the next owner need not wait for it to run out.
func (s *slot) release(epoch int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.parts.Store.Release(ctx, s.number, epoch); err != nil && !errors.Is(err, checkpoint.ErrFenced) {
		s.log.Debug("the lease could not be released; it will run out", "error", err)
	}
}

// rollForward moves the checkpoint over what the last owner wrote to the sink but did not checkpoint.
func (s *slot) rollForward(ctx context.Context, state *checkpoint.SlotState, recovered []sinks.Recovered) error {
	for i := range recovered {
		failpoint.Hit(failpoint.RollingForward)
		r := &recovered[i]
		if err := s.parts.Store.Commit(ctx, commitOf(&r.Batch, state.Epoch, r.Offsets, s.config.Before)); err != nil {
			return fmt.Errorf("roll the checkpoint of slot %d forward to batch %d: %w", s.number, r.Batch.Seq, err)
		}
		state.Seq = r.Batch.Seq
		s.log.Info("rolled the checkpoint forward", "batch", r.Batch.Seq, "changes", len(r.Batch.Changes))
	}
	return nil
}

// work reads and commits until the context ends or something fails. When the context ends it drains: the batch
// that is being gathered is committed too, within the shutdown timeout.
func (s *slot) work(parent context.Context, state checkpoint.SlotState, log sinks.Log, lost *sinks.LostTailError) error {
	reading, stopReading := context.WithCancelCause(parent)
	defer stopReading(nil)
	writing, stopWriting := context.WithCancelCause(context.WithoutCancel(parent))
	defer stopWriting(nil)
	defer context.AfterFunc(parent, func() {
		time.AfterFunc(s.config.ShutdownTimeout, func() { stopWriting(ErrShutdownTimeout) })
	})()

	q := newQueue(s.config.BufferChanges, s.config.BufferBytes)
	streams := newStreams(s, q, lost, stopReading)
	go s.renew(writing, state.Epoch, stopReading)

	batches := make(chan *collected)
	collector := newCollector(q, batches, s.config.Limits)
	stopped := make(chan struct{})
	go func() {
		streams.run(reading)
		close(stopped)
	}()
	go collector.run(writing, stopped)

	err := s.commitAll(writing, state, log, q, batches)
	stopReading(err)
	stopWriting(err) // lets the collector go
	<-stopped
	if err == nil && parent.Err() == nil {
		err = context.Cause(reading)
	}
	return err
}

// ErrShutdownTimeout: Run was told to stop and could not finish in time.
var ErrShutdownTimeout = errors.New("the shutdown timeout (KUBECDC_SHUTDOWN_TIMEOUT) ran out before the last batch was committed; it will be recovered at the next start")

func (s *slot) commitAll(ctx context.Context, state checkpoint.SlotState, log sinks.Log, q *queue, batches <-chan *collected) error {
	c := &committer{slot: s.number, epoch: state.Epoch, seq: state.Seq, cluster: s.config.Cluster,
		store: s.parts.Store, log: log, observer: s.parts.Observer,
		watermark: s.config.Limits.Watermark, watermarks: map[string]time.Time{}}
	if s.config.Before {
		c.befores = newBefores(s.parts.Store, s.config.BodyCacheBytes)
	}
	for b := range batches {
		if err := c.commit(ctx, b); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = errors.Join(cause, err)
			}
			return err
		}
		q.done(b.weight)
	}
	return nil
}

// renew keeps the lease. It ends the session when another owner has the slot, or when the lease may have run out.
func (s *slot) renew(ctx context.Context, epoch int64, fail context.CancelCauseFunc) {
	ticker := time.NewTicker(s.config.LeaseDuration / 3)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		started := time.Now()
		err := s.parts.Store.Renew(ctx, s.number, epoch, s.config.LeaseDuration)
		switch {
		case err == nil:
			renewed = started
		case errors.Is(err, checkpoint.ErrFenced):
			fail(fmt.Errorf("renew the lease of slot %d: %w", s.number, err))
			return
		case time.Since(renewed) > s.config.LeaseDuration:
			fail(fmt.Errorf("the lease of slot %d could not be renewed in time: %w", s.number, err))
			return
		}
	}
}

// slotOf says which slot owns a stream.
func slotOf(stream string, slots int) int {
	h := uint32(2166136261)
	for i := range len(stream) {
		h = (h ^ uint32(stream[i])) * 16777619
	}
	return int(h % uint32(slots))
}
