package observe

import (
	"strings"

	"kubecdc/source"
)

// Streams tells metrics, health and progress what the streams do: it is their source.Observer.
type Streams struct {
	Metrics  *Metrics
	Health   *Health
	Progress *Progress
}

var _ source.Observer = (*Streams)(nil)

// FirstSnapshot is the reason of a stream that lists because it has no position yet.
const FirstSnapshot = "first snapshot"

func (s *Streams) StreamState(stream string, state source.State, reason string, err error) {
	s.Metrics.StreamState(stream, string(state))
	s.Health.StreamState(stream, string(state), err)
	if err != nil {
		s.Metrics.Error(StageSource)
	}
	switch {
	case state == source.StateListing && reason == FirstSnapshot:
		s.Progress.Begin(stream)
	case state == source.StateWatching, state == source.StateAbsent:
		s.Progress.Done(stream)
	}
}

func (s *Streams) ListProgress(stream string, done, total int64) { s.Progress.List(stream, done, total) }

// Reconnected counts a lost watch; a reason that begins with "relist: " says that a list follows, and why.
func (s *Streams) Reconnected(_, reason string) {
	if why, ok := strings.CutPrefix(reason, "relist: "); ok {
		s.Metrics.Relist(why)
		return
	}
	s.Metrics.WatchRestart()
}
