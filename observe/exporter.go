package observe

import (
	"maps"
	"time"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/source/reflector"
)

// Exporter passes the events of the exporter and the sink on to metrics, health and progress.
type Exporter struct {
	Metrics  *Metrics
	Health   *Health
	Progress *Progress
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

// StreamsFound gives the streams of the checkpoint, before the start waits for the sink.
func (e *Exporter) StreamsFound(positions []change.Position) { e.Metrics.streams.found(positions) }

func (e *Exporter) SlotStreams(slot int, positions []change.Position) {
	e.Metrics.streams.slot(slot, positions)
	for _, p := range positions {
		e.Metrics.of(p.Stream)
	}
}

func (e *Exporter) StreamObjects(slot int, stream change.StreamID, known func() int64) {
	e.Metrics.streams.added(slot, stream, known)
}

func (e *Exporter) RemovalUnknown(stream change.StreamID, err error) {
	e.Health.RemovalUnknown(stream, err)
}

func (e *Exporter) StreamsKnown(slot int) { e.Health.StreamsKnown(slot) }

func (e *Exporter) ReplicaStatus(s ownership.Status) {
	others := maps.Clone(s.Owners)
	maps.DeleteFunc(others, func(_ int, owner string) bool { return owner == s.Self })
	e.Health.ReplicaStatus(others, s.Standby)
	e.Health.Replicas(s)
	e.Metrics.Replicas(s.Replicas, s.Share, s.Standby != "")
	e.Metrics.streams.slot(notAssigned, nil)
}

func (e *Exporter) StreamRemoved(stream change.StreamID) {
	e.Health.Forget(stream)
	e.Metrics.streams.stopped(stream)
	e.Progress.Done(stream)
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

func (e *Exporter) SnapshotStarted(stream change.StreamID) { e.Progress.Begin(stream) }

func (e *Exporter) ListProgress(stream change.StreamID, done, total int64) {
	e.Progress.List(stream, done, total)
}

func (e *Exporter) RecoveryProgress(stream change.StreamID, done, total, requests int) {
	e.Metrics.streams.recovering(stream, done, total)
	e.Health.RecoveryProgress(stream, done, total, requests)
}

func (e *Exporter) WatchRestarted(change.StreamID) { e.Metrics.WatchRestart() }

func (e *Exporter) Relisted(stream change.StreamID, reason reflector.RelistReason) {
	e.Metrics.Relist(stream, reason)
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

func (e *Exporter) CheckpointSize(bytes int64) { e.Metrics.CheckpointSize(bytes) }

func (e *Exporter) Rebuilding(slot int, done, total int64) {
	e.Health.SlotRebuilding(slot, done, total)
}

func (e *Exporter) RollingForward(slot int, batch, last uint64) {
	e.Health.SlotRollingForward(slot, batch, last)
}

func (e *Exporter) Buffering(slot int, fill func() export.Fill) {
	e.Metrics.Buffer(slot, fill)
}

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

func (e *Exporter) Stalled(dependency string, err error) {
	e.Health.Stalled(dependency, err)
	if err != nil {
		e.Metrics.Error(dependency)
	}
}

// SinkStuck gives the error that the sink retries; nil when a retry succeeded.
func (e *Exporter) SinkStuck(err error) {
	if err == nil {
		e.Health.Clear(dependency.Sink)
		return
	}
	e.Health.Problem(dependency.Sink, err)
	e.Metrics.Error(StageSink)
}

func (e *Exporter) DeadLetter(resource string) { e.Metrics.DeadLetter(resource) }
