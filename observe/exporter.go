package observe

import (
	"time"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/source/reflector"
)

// Exporter gets the events of the exporter and the sink. Its methods are those that concern several of its parts.
type Exporter struct {
	*Metrics
	*Health
	*Progress
}

var (
	_ export.Observer = (*Exporter)(nil)
	_ sinks.Observer  = (*Exporter)(nil)
)

func (e *Exporter) StreamAdded(stream change.StreamID) {
	e.Health.StreamAdded(stream)
	e.Metrics.of(stream)
	e.Progress.Expect(stream)
}

func (e *Exporter) ReplicaStatus(s ownership.Status) {
	e.Health.ReplicaStatus(s)
	e.Metrics.Replicas(s.Replicas, s.Share, s.Standby != "")
	e.Metrics.streams.slot(notAssigned, nil)
}

func (e *Exporter) StreamRemoved(stream change.StreamID) {
	e.Health.Forget(stream)
	e.Metrics.streams.stopped(stream)
	e.Progress.Drop(stream)
}

func (e *Exporter) StreamState(stream change.StreamID, state change.StreamState, _ string, err error) {
	e.Metrics.streams.setState(stream, state, err)
	e.Health.StreamState(stream, state, err)
	switch {
	case err != nil && state == change.StateRefused && !reflector.IsRefused(err):
		e.Metrics.Error(StageSink)
	case err != nil && state != change.StatePaused:
		e.Metrics.Error(StageSource)
	}
	switch {
	case err != nil:
		e.Progress.Drop(stream)
	case isCurrent(state):
		e.Progress.Done(stream)
	}
}

func (e *Exporter) SlotHeld(slot int, epoch int64, held bool) {
	e.Health.SlotHeld(slot, held)
	e.Metrics.Slot(slot, epoch, held)
}

func (e *Exporter) Committed(c export.Committed) {
	e.Metrics.Batch(c.Batch)
	e.Metrics.Commit(StageCollect, c.Collect)
	e.Metrics.Commit(StageBeforeImages, c.BeforeImages)
	e.Metrics.Commit(StagePrepare, c.Prepare)
	e.Metrics.Commit(StageSink, c.Sink)
	e.Metrics.Ignored(c.Ignored)
	e.Health.Committed(c)
	for _, p := range c.Batch.Positions {
		e.Metrics.streams.position(c.Batch.Slot, p)
	}
	for _, m := range c.Batch.Malformed {
		e.Metrics.DeadLetter(change.ResourceOf(m.Stream).ID())
	}
	for _, control := range c.Batch.Controls {
		if control.Type == change.ControlGap && control.Gap != nil {
			e.Metrics.Gap(control.Stream, control.Gap)
		}
		if control.Type == change.ControlProof && control.Proof != nil {
			e.Metrics.Proof(control.Stream, control.Proof)
			e.Health.Proof(control.Stream, control.Proof, control.ResourceVersion)
		}
	}
}

func (e *Exporter) Checkpointed(_ int, took time.Duration) {
	e.Metrics.Commit(StageCheckpoint, took)
	e.Health.Checkpointed()
}

func (e *Exporter) SelectionLacks(err error) { e.Health.Problem(selectionComponent, err) }

// Problem attributes an error to its dependency, if it has one.
func (e *Exporter) Problem(slot int, err error) {
	from := dependency.Of(err)
	e.Health.SlotProblem(slot, from, err)
	if err != nil {
		e.Metrics.SessionFailed(slot)
	}
	switch {
	case err == nil:
	case from == "":
		e.Metrics.Error(StageCommit)
	default:
		e.Metrics.Error(from)
	}
}

func (e *Exporter) Stalled(server string, err error) {
	e.Health.Stalled(server, err)
	if err != nil {
		e.Metrics.Error(server)
	}
}

// SinkStuck gives the error that the sink retries; nil when a retry succeeded.
func (e *Exporter) SinkStuck(err error) {
	if e.Health.Problem(dependency.Sink, err); err != nil {
		e.Metrics.Error(StageSink)
	}
}
