package live

import (
	"fmt"
	"maps"
	"math"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/source/reflector"
)

// Committed is a committed batch with the durations of its commit.
type Committed struct {
	Batch   *change.Batch
	Ignored map[string]int // number of updates that were not written, by resource
	// These are the durations of the stages. 0 means that the batch did not pass the stage. Collect is the time since the batch's
	// first record.
	Collect, BeforeImages, Prepare, Sink time.Duration
}

// GapLogLost is the cause of a gap that no watch has. Either records of the log are lost, or it is unknown how far the log is
// complete.
const GapLogLost = "the log has lost records"

// Committed reports a batch that is durable.
func (e *Exporter) Committed(c Committed) {
	counts := countByStream(c.Batch.Changes)
	e.Count.Committed(c)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used(dependency.Sink)
	now := e.Now()
	e.slot(c.Batch.Slot).LastCommit = now
	for id, n := range counts {
		if s := e.streams[id]; s != nil {
			s.rate.add(n, now)
		}
	}
	for _, p := range c.Batch.Positions {
		s := e.place(c.Batch.Slot, p)
		s.Ended = p.Ended != ""
		s.Position = p
	}
	for i := range c.Batch.Controls {
		if control := &c.Batch.Controls[i]; control.Stream != "" && (control.Gap != nil || control.Proof != nil) {
			e.committed(control)
		}
	}
}

// committed records a gap or a proof.
func (e *Exporter) committed(c *change.Control) {
	s := e.streams[c.Stream]
	if s == nil {
		s = &stream{} // not shown
	}
	s.Controls = maps.Clone(s.Controls) // a Snapshot may share them
	if s.Controls == nil {
		s.Controls = map[change.ControlType]change.Control{}
	}
	s.Controls[c.Type] = *c
	switch {
	case c.Gap != nil:
		e.Count.Gap(s.cause(c.Gap), c.Gap.Complete)
	case c.Proof != nil:
		e.proven(s, c.Proof, c.ResourceVersion)
	}
}

// cause returns why the stream has a gap, as a label of the metric kubecdc_gaps_total.
func (s *stream) cause(g *change.Gap) string {
	switch {
	case g.Lost():
		return GapLogLost
	case s.relist == "":
		return string(reflector.RelistExpired)
	}
	return string(s.relist)
}

// Differs is the code and the cause of a problem that a proof has found.
const Differs = "objects in the log differ from the API server's (exporter verify names them)"

// proven records whether the stream's objects differed from the API server's at a resourceVersion.
func (e *Exporter) proven(s *stream, p *change.Proof, version change.ResourceVersion) {
	if p.Result != change.ProofUnsupported {
		s.Proven, s.Differing = e.Now(), p.Differences()
	}
	if p.Result != change.ProofDifferent {
		s.Differs = nil
		return
	}
	s.Differs = e.problem(s.Differs, fault.WithPublic(fmt.Errorf("its objects in the log differ from the API server's at "+
		"resourceVersion "+
		"%s: %s (exporter verify names them)", version, p), Differs))
	s.Differs.Code = Differs
}

// Checkpointed records a commit of the checkpoint, which may have several batches, and how long it took.
func (e *Exporter) Checkpointed(took time.Duration) {
	e.Count.Checkpointed(took)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used(dependency.Checkpoint)
}

// average is a rate over about the last minute.
type average struct {
	perSecond float64
	last      time.Time
}

const rateSeconds = 60

func (r *average) add(n int, now time.Time) {
	r.perSecond, r.last = r.now(now)+float64(n)/rateSeconds, now
}

func (r *average) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-now.Sub(r.last).Seconds()/rateSeconds)
}

// countByStream counts changes. Changes of one stream often follow each other.
func countByStream(changes []change.Change) map[change.StreamID]int {
	counts := map[change.StreamID]int{}
	for i := 0; i < len(changes); {
		stream, first := changes[i].Stream, i
		for i < len(changes) && changes[i].Stream == stream {
			i++
		}
		counts[stream.ID()] += i - first
	}
	return counts
}
