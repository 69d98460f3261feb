package streams

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/fault"
)

// A user can pause a stream by a signal. The signal remains open, in the state paused, until another signal resumes the stream,
// so the next owner of the slot finds it. A paused stream is not read, and its position remains as it is. A resumed stream
// recovers the changes of the pause, as after any stop.

// pausedBy is what /readyz says about a paused stream.
func pausedBy(g checkpoint.Signal) error {
	return fault.WithPublic(fmt.Errorf("paused by %s: exporter resume %s resumes it", nameOf(g), g.Stream), "paused by a signal")
}

// loadPaused finds the streams that are paused, before any stream is read.
func (st *Streams) loadPaused(ctx context.Context) (err error) {
	st.open, err = st.openSignals(ctx)
	for _, g := range st.open {
		if g.Kind == change.SignalPause && g.State == change.SignalPaused && st.paused(g.Stream) == nil {
			st.all[g.Stream] = &pausedByUser{g}
			st.jobs[g.ID] = st.newJob(g)
		}
	}
	return err
}

func (st *Streams) pauseBySignal(ctx context.Context, g checkpoint.Signal) (begun bool, err error) {
	if other := st.paused(g.Stream); other != nil {
		return true, st.newJob(g).end(ctx, change.SignalCompleted,
			checkpoint.SignalAnswer{Reason: "paused already, by " + nameOf(other.signal)})
	}
	err = st.answer(ctx, g.ID, checkpoint.SignalAnswer{State: change.SignalStarted})
	if errors.Is(err, checkpoint.ErrSignalEnded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	position, err := st.stop(ctx, g.Stream)
	if err != nil {
		return false, err
	}
	st.all[g.Stream] = &pausedByUser{g}
	st.leaveOut(g.Stream, change.StatePaused, pausedBy(g))
	st.slot.Logger.Info("a stream is paused", "stream", g.Stream, "signal", g.ID, "position", position)
	return true, st.send(ctx, change.StreamPausedControl(g.Stream, position, nameOf(g)),
		st.answerDurable(g.ID, checkpoint.SignalAnswer{State: change.SignalPaused}))
}

// stop stops reading a stream, and returns its position.
func (st *Streams) stop(ctx context.Context, id change.StreamID) (change.ResourceVersion, error) {
	if r := st.reading(id); r != nil {
		r.cancel()
		<-r.done
		return r.Position(), nil
	}
	p, _, err := st.memory.Position(ctx, id)
	return p.ResourceVersion, err
}

// resumeBySignal continues a paused stream. It waits until the pause is durable: what was read before the pause must be in the
// checkpoint when the stream reads its position there.
func (st *Streams) resumeBySignal(ctx context.Context, g checkpoint.Signal) (begun bool, err error) {
	paused := st.paused(g.Stream)
	if paused == nil {
		return true, st.newJob(g).end(ctx, change.SignalFailed, checkpoint.SignalAnswer{Reason: "the stream is not paused"})
	}
	if paused.signal.State != change.SignalPaused {
		return false, nil
	}
	return true, st.resume(ctx, paused.signal, &g)
}

// resume continues a paused stream. asked is the signal that asks for it, or nil if the pause is aborted.
func (st *Streams) resume(ctx context.Context, pause checkpoint.Signal, asked *checkpoint.Signal) error {
	p, stored, err := st.memory.Position(ctx, pause.Stream)
	if err != nil {
		return err
	}
	durable, cause := st.answerDurable(pause.ID, checkpoint.SignalAnswer{State: change.SignalAborted}), pause
	if asked != nil {
		ended := checkpoint.SignalAnswer{State: change.SignalCompleted}
		first, then := st.answerDurable(pause.ID, ended), st.answerDurable(asked.ID, ended)
		cause = *asked
		durable = func(ctx context.Context) error { return errors.Join(first(ctx), then(ctx)) }
	}
	st.reconsider(pause.Stream, p, stored)
	st.slot.Logger.Info("a paused stream resumes", "stream", pause.Stream, "signal", cause.ID, "position", p.ResourceVersion)
	if err := st.send(ctx, change.StreamResumedControl(pause.Stream, p.ResourceVersion, nameOf(cause)), durable); err != nil {
		return err
	}
	return st.applyAgain(ctx)
}
