package streams

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
)

// Signals are rows of the checkpoint store, which the command line writes (checkpoint.Signals). The session that owns the slot of
// a signal's stream polls for open ones and does what they ask. It answers in the store and by control records. An answer about
// records is given once these are durable. When a crash interrupts the work, the next owner finds the signal open, and continues.

// signalInterval is how often a session polls for signals.
const signalInterval = 2 * time.Second

type signalKind struct {
	// now does what the signal asks at once, in the goroutine of Streams.Run. It reports false if the signal has to wait.
	now func(st *Streams, ctx context.Context, g checkpoint.Signal) (begun bool, err error)
	// work does what the signal asks in a separate goroutine while the stream is read, until the context ends. Its result is the
	// answer, and the signal is completed. An error fails the signal, unless the context has ended: then the signal is still
	// open.
	work func(ctx context.Context, j *signalJob) (checkpoint.SignalAnswer, error)
}

var signalKinds = map[change.SignalKind]signalKind{
	change.SignalPause:    {now: (*Streams).pauseBySignal},
	change.SignalForget:   {now: (*Streams).forgetBySignal},
	change.SignalResume:   {now: (*Streams).resumeBySignal},
	change.SignalSnapshot: {work: snapshotBySignal},
	change.SignalRepair:   {work: repairBySignal},
	change.SignalRestore:  {now: (*Streams).restoreBySignal},
}

// signalJob is a signal that this session works on.
type signalJob struct {
	checkpoint.Signal
	streams  *Streams
	stream   *beingRead // the stream during whose reading the work is done, or nil if the signal's kind is handled at once
	cancel   context.CancelCauseFunc
	version  change.ResourceVersion // for the control records; may be empty
	inFlight atomic.Int64           // answers that wait until what was emitted before them is durable
	ended    atomic.Bool            // the work has ended
	open     atomic.Bool            // the work was interrupted, and begins again when the stream is read again
}

// errAborted ends the context of work that the user aborts.
var errAborted = errors.New("aborted")

// followSignals finds the open signals, begins those that are new, and aborts those that the user has withdrawn.
func (st *Streams) followSignals(ctx context.Context) error {
	open, err := st.openSignals(ctx)
	if err != nil {
		st.slot.Logger.Debug("failed to read the signals; trying again", "in", signalInterval, "error", err)
		return nil
	}
	st.open = open
	jobs := map[int64]*signalJob{}
	for _, g := range open {
		if paused := st.paused(g.Stream); paused != nil && paused.signal.ID == g.ID {
			paused.signal.State = g.State
		}
		j := st.jobs[g.ID]
		if j != nil && !j.open.Load() {
			jobs[g.ID] = j
			if err := st.abortIfAsked(ctx, j, g); err != nil {
				return err
			}
			continue
		}
		if j, err = st.begin(ctx, g); err != nil {
			return err
		}
		if j != nil {
			jobs[g.ID], st.jobs[g.ID] = j, j
		}
	}
	st.jobs = jobs // signals that are not open any more are dropped
	return nil
}

func (st *Streams) openSignals(ctx context.Context) (mine []checkpoint.Signal, err error) {
	ctx, cancel := context.WithTimeout(ctx, st.slot.Config.CheckpointTimeout())
	defer cancel()
	all, err := st.slot.Parts.Store.Signals(ctx, true)
	for _, g := range all {
		if st.slot.Owns(g.Stream) {
			mine = append(mine, g)
		}
	}
	return mine, dependency.Tag(dependency.Checkpoint, err)
}

func (st *Streams) newJob(g checkpoint.Signal) *signalJob {
	return &signalJob{Signal: g, streams: st, cancel: func(error) {}}
}

// begin begins a signal. It returns nil if the signal has to wait or has ended.
func (st *Streams) begin(ctx context.Context, g checkpoint.Signal) (*signalJob, error) {
	j := st.newJob(g)
	kind, known := signalKinds[g.Kind]
	switch {
	case !known:
		return j, j.end(ctx, change.SignalFailed, checkpoint.SignalAnswer{Reason: "this exporter does not know signals of " +
			"this kind: " + string(g.Kind)})
	case g.Abort && kind.work != nil:
		return j, j.end(ctx, change.SignalAborted, g.SignalAnswer)
	case kind.now != nil:
		begun, err := kind.now(st, ctx, g)
		if !begun {
			j = nil
		}
		return j, err
	case st.newest == nil || st.hasJob(g.Stream):
		return nil, nil
	}
	switch now := st.all[g.Stream].(type) {
	case *beingRead:
		j.stream = now
	case *pausedByUser, refusedBySink:
		return nil, nil
	default:
		return j, j.end(ctx, change.SignalFailed, checkpoint.SignalAnswer{Reason: "the stream is not read: it is not selected"})
	}
	err := st.answer(ctx, g.ID, checkpoint.SignalAnswer{State: change.SignalStarted, LastKey: g.LastKey, Done: g.Done,
		Total: g.Total})
	if errors.Is(err, checkpoint.ErrSignalEnded) {
		return nil, nil
	}
	if err == nil {
		j.run(ctx, kind)
	}
	return j, err
}

// hasJob reports whether the session works on another signal of the stream: they are done one after another.
func (st *Streams) hasJob(stream change.StreamID) bool {
	for _, j := range st.jobs {
		if j.Stream == stream && j.stream != nil && !j.ended.Load() {
			return true
		}
	}
	return false
}

// run runs the work, until the stream stops.
func (j *signalJob) run(session context.Context, kind signalKind) {
	ctx, cancel := context.WithCancelCause(j.stream.ctx)
	j.cancel = cancel
	j.streams.wg.Go(func() {
		defer j.ended.Store(true)
		defer cancel(nil)
		a, err := kind.work(ctx, j)
		state := change.SignalCompleted
		switch {
		case errors.Is(context.Cause(ctx), errAborted):
			state, a.Reason = change.SignalAborted, ""
		case ctx.Err() != nil:
			j.open.Store(true)
			return
		case dependency.NameOf(err) != "":
			j.streams.fail(err) // the next session goes on
			return
		case err != nil:
			state, a.Reason = change.SignalFailed, err.Error()
		}
		if err := j.end(session, state, a); err != nil && session.Err() == nil {
			j.streams.fail(err)
		}
	})
}

func (st *Streams) abortIfAsked(ctx context.Context, j *signalJob, g checkpoint.Signal) error {
	switch {
	case !g.Abort:
		return nil
	case g.Kind == change.SignalPause && st.paused(g.Stream) != nil && g.State == change.SignalPaused:
		return st.resume(ctx, g, nil)
	}
	j.cancel(errAborted)
	return nil
}

func (st *Streams) answer(ctx context.Context, id int64, a checkpoint.SignalAnswer) error {
	err := st.slot.Parts.Store.AnswerSignal(ctx, st.slot.Number, st.epoch, id, a)
	return dependency.Tag(dependency.Checkpoint, err)
}

// answerDurable returns what an item calls once it is durable, to answer a signal. A signal that has ended needs no answer.
func (st *Streams) answerDurable(id int64, a checkpoint.SignalAnswer) func(context.Context) error {
	return func(ctx context.Context) error {
		err := st.answer(ctx, id, a)
		failpoint.Hit(failpoint.SignalAnswered)
		if errors.Is(err, checkpoint.ErrSignalEnded) {
			return nil
		}
		return err
	}
}

// end writes the control record of the signal's end, and answers once it is durable.
func (j *signalJob) end(ctx context.Context, state change.SignalState, a checkpoint.SignalAnswer) error {
	a.State = state
	j.streams.slot.Logger.Info("a signal has ended", "signal", j.ID, "kind", j.Kind, "stream", j.Stream, "state", state,
		"reason", a.Reason)
	return j.send(ctx, state, a.Reason, a.Done, j.streams.answerDurable(j.ID, a))
}

func (j *signalJob) send(ctx context.Context, state change.SignalState, cause string, done int64,
	durable func(context.Context) error) error {
	return j.streams.send(ctx,
		change.SignalControl(j.Stream, j.version, change.SignalRecord{ID: j.ID, Kind: j.Kind, State: state, Done: done}, cause),
		durable)
}

// nameOf names a signal, for people.
func nameOf(g checkpoint.Signal) string { return fmt.Sprintf("signal %d", g.ID) }
