package live

import (
	"fmt"
	"maps"
	"math"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/source/reflector"
)

// Committed is a committed batch, and what its commit took.
type Committed struct {
	Batch   *change.Batch
	Ignored map[string]int // updates that were not written, by resource
	// How long each stage took; 0: the batch has not passed it. Collect is the time from the batch's first record.
	Collect, BeforeImages, Prepare, Sink time.Duration
}

// GapLogLost is the cause of a gap that no watch has: what the log had is lost, or it is not known how far it is complete.
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
	for _, control := range checkpoint.RetainedControls(c.Batch.Controls) {
		e.committed(&control)
	}
}

// committed notes a gap or a proof.
func (e *Exporter) committed(c *change.Control) {
	s := e.streams[c.Stream]
	if s == nil {
		s = &stream{} // of which nothing is shown
	}
	s.Controls = maps.Clone(s.Controls) // a Snapshot may have them
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

// cause is why the stream has a gap: a label of the metric kubecdc_gaps_total.
func (s *stream) cause(g *change.Gap) string {
	switch {
	case g.Lost():
		return GapLogLost
	case s.relist == "":
		return string(reflector.RelistExpired)
	}
	return string(s.relist)
}

// proven notes whether the stream's objects differed from the API server's at a resourceVersion.
func (e *Exporter) proven(s *stream, p *change.Proof, at change.ResourceVersion) {
	if p.Result != change.ProofUnsupported {
		s.Proven, s.Differing = e.Now(), p.Differences()
	}
	if p.Result != change.ProofDifferent {
		s.Differs = nil
		return
	}
	s.Differs = e.problem(s.Differs, fmt.Errorf("its objects in the log differ from the API server's at resourceVersion %s: %s "+
		"(exporter verify names them)", at, p))
}

// Checkpointed reports a commit of the checkpoint, which may be of several batches, and the time that it took.
func (e *Exporter) Checkpointed(took time.Duration) {
	e.Count.Checkpointed(took)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used(dependency.Checkpoint)
}

// average is a rate over about the last minute.
type average struct {
	perSecond float64
	at        time.Time
}

const rateSeconds = 60

func (r *average) add(n int, now time.Time) {
	r.perSecond, r.at = r.now(now)+float64(n)/rateSeconds, now
}

func (r *average) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-now.Sub(r.at).Seconds()/rateSeconds)
}

// countByStream counts changes. Those of a stream often follow each other.
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
