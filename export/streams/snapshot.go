package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/source/reflector"
)

// SnapshotParams are the parameters of a signal of the kind change.SignalSnapshot.
type SnapshotParams struct {
	Namespace string `json:"namespace,omitempty"` // empty: all namespaces of the stream
	Selector  string `json:"selector,omitempty"`  // a label selector, in addition to the stream's
	All       bool   `json:"all,omitempty"`       // write every object, to a separate topic
}

// snapshotBySignal reads a stream's collection while its watch continues (reflector.Snapshot).
func snapshotBySignal(ctx context.Context, j *signalJob) (checkpoint.SignalAnswer, error) {
	var p SnapshotParams
	if len(j.Params) > 0 {
		if err := json.Unmarshal(j.Params, &p); err != nil {
			return j.SignalAnswer, fmt.Errorf("read the parameters of the signal: %w", err)
		}
	}
	s := &reflector.Snapshot{Namespace: p.Namespace, Labels: p.Selector, After: j.LastKey}
	last := j.SignalAnswer
	s.Begin = func(version change.ResourceVersion) error { return j.beginList(ctx, version, s.After) }
	s.Page = func(page reflector.SnapshotProgress) error {
		last = checkpoint.SignalAnswer{State: change.SignalInProgress, LastKey: page.Key, Done: page.Done, Total: page.Total}
		return j.progress(ctx, last, page.Emitted)
	}
	what := "%d changes, of a list of %d objects at resourceVersion %s"
	if p.All {
		if err := j.streams.acceptsSnapshots(change.ParseStream(j.Stream)); err != nil {
			return last, err
		}
		s.All, what = true, "%d objects written, of a list of %d at resourceVersion %s"
	}
	err := j.stream.Snapshot(ctx, s)
	last.Reason = fmt.Sprintf(what, s.Changes, last.Done, s.Version)
	return last, err
}

// acceptsSnapshots returns an error if the sink does not accept the records of a snapshot.
func (st *Streams) acceptsSnapshots(s *change.Stream) error {
	if !st.slot.Config.SnapshotTopics {
		return errors.New("all objects are written to a topic of their own, and this exporter's sink has no topics")
	}
	if r := st.refusals.refusalOf(change.SnapshotOf(s).Resource); r != nil {
		return r.Err
	}
	return nil
}

// beginList writes the control record for the beginning of a list, with its version.
func (j *signalJob) beginList(ctx context.Context, version change.ResourceVersion, after string) error {
	j.version = version
	state, cause := change.SignalStarted, ""
	if after != "" {
		state, cause = change.SignalInProgress, "a new list; objects up to "+after+" were done before"
	}
	return j.send(ctx, state, cause, 0, nil)
}

// progress answers with the job's progress, once everything that it has emitted is durable.
func (j *signalJob) progress(ctx context.Context, a checkpoint.SignalAnswer, emitted bool) error {
	durable := j.streams.answerDurable(j.ID, a)
	if !emitted && j.inFlight.Load() == 0 {
		return durable(ctx)
	}
	j.inFlight.Add(1)
	return j.streams.queue.Send(ctx, change.Item{Stream: j.Stream, Durable: func(ctx context.Context) error {
		defer j.inFlight.Add(-1)
		return durable(ctx)
	}})
}
