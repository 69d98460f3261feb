package observe

import (
	"maps"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/sinks"
	"kubecdc/source/reflector"
)

// Exporter tells metrics, health and progress what the exporter does: it is an export.Observer and a sinks.Observer.
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
	e.Progress.Expect(stream)
}

func (e *Exporter) StreamDoubt(stream change.StreamID, err error) { e.Health.StreamDoubt(stream, err) }

func (e *Exporter) StreamsKnown(slot int) { e.Health.StreamsKnown(slot) }

func (e *Exporter) Standing(s ownership.Standing) {
	others := maps.Clone(s.Owners)
	maps.DeleteFunc(others, func(_ int, owner string) bool { return owner == s.Self })
	e.Health.Standing(others, s.Standby)
	e.Metrics.Replicas(s.Replicas, s.Share, s.Standby != "")
}

func (e *Exporter) StreamRemoved(stream change.StreamID) {
	e.Health.Forget(stream)
	e.Metrics.Forget(stream)
	e.Progress.Done(stream)
}

func (e *Exporter) StreamState(stream change.StreamID, state reflector.State, reason string, err error) {
	e.Metrics.StreamState(stream, state)
	e.Health.StreamState(stream, string(state), err)
	switch {
	case err != nil && state == reflector.StateRefused:
		e.Metrics.Error(StageSink)
	case err != nil:
		e.Metrics.Error(StageSource)
	}
	switch {
	case err != nil:
		e.Progress.Drop(stream)
	case state == reflector.StateListing && reason == reflector.ReasonFirstSnapshot:
		e.Progress.Begin(stream)
	case state == reflector.StateWatching, state == reflector.StateCatchingUp, state == reflector.StateAbsent:
		e.Progress.Done(stream)
	}
}

func (e *Exporter) ListProgress(stream change.StreamID, done, total int64) {
	e.Progress.List(stream, done, total)
}

func (e *Exporter) WatchRestarted(change.StreamID) { e.Metrics.WatchRestart() }

func (e *Exporter) Relisted(_ change.StreamID, reason reflector.RelistReason) {
	e.Metrics.Relist(reason)
}

func (e *Exporter) SlotHeld(slot int, epoch int64, held bool) {
	e.Health.SlotHeld(slot, held)
	e.Metrics.Slot(slot, epoch, held)
}

func (e *Exporter) Committed(c export.Committed) {
	e.Metrics.Batch(c.Batch)
	e.Metrics.Commit(StageSink, c.Sink)
	e.Metrics.Commit(StageCheckpoint, c.Checkpoint)
	for _, p := range c.Batch.Positions {
		e.Metrics.Position(p)
	}
	for _, m := range c.Batch.Malformed {
		e.Metrics.DeadLetter(change.ResourceOf(m.Stream).ID())
	}
	for _, control := range c.Batch.Controls {
		if control.Type == change.ControlGap && control.Gap != nil {
			e.Metrics.Gap(control.Gap.Complete)
		}
	}
}

func (e *Exporter) Rebuilding(slot int, done, of int64) {
	e.Health.SlotRebuilding(slot, done, of)
	e.Progress.Rebuild(slot, done, of)
}

func (e *Exporter) RollingForward(slot int, batch, of uint64) {
	e.Health.SlotRollingForward(slot, batch, of)
}

func (e *Exporter) Buffering(slot int, fill func() (items, bytes int64)) {
	e.Metrics.Buffer(slot, fill)
}

// Problem counts and shows an error under the part that it comes from.
func (e *Exporter) Problem(slot int, err error) {
	part := dependency.Of(err)
	e.Health.SlotProblem(slot, part, err)
	switch {
	case err == nil:
	case part == "":
		e.Metrics.Error(StageCommit)
	default:
		e.Metrics.Error(part)
	}
}

// Stalled shows what a part has not answered.
func (e *Exporter) Stalled(part string, err error) {
	e.Health.Stalled(part, err)
	if err != nil {
		e.Metrics.Error(part)
	}
}

// SinkStuck shows what the sink keeps trying; nil when it goes on.
func (e *Exporter) SinkStuck(err error) {
	if err == nil {
		e.Health.Clear(dependency.Sink)
		return
	}
	e.Health.Problem(dependency.Sink, err)
	e.Metrics.Error(StageSink)
}

// DeadLetter counts a record that was too large or refused.
func (e *Exporter) DeadLetter(resource string) { e.Metrics.DeadLetter(resource) }
