package status

import (
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/export/live"
)

// While streams still get their first positions, those that had only an error which may pass are waited for. A refusal, and a
// collection that hangs alone, are not.
func TestReadinessWaitsForStreamsThatHaveNeverListed(t *testing.T) {
	now := time.Now()
	problem := &live.Problem{Text: "504"}
	listed := live.Session{Added: true, State: change.StateWatching, Settled: true, Positioned: true}
	failed := live.Session{Added: true, State: change.StateWaiting, Settled: true, Problem: problem}
	refused := live.Session{Added: true, State: change.StateRefused, Settled: true, Problem: problem, Refused: true}
	paused := live.Session{Added: true, State: change.StatePaused, Settled: true, Problem: problem}
	for name, test := range map[string]struct {
		last  time.Duration // since the last first position
		all   []live.Session
		ready bool
	}{
		"many have failed, and others list": {time.Second, []live.Session{listed, failed, failed, failed}, false},
		"nothing moves any more":            {2 * time.Minute, []live.Session{listed, failed, failed, failed}, true},
		"one hangs alone":                   {time.Second, []live.Session{listed, listed, failed}, true},
		"some are refused":                  {time.Second, []live.Session{listed, refused, refused}, true},
		"some are paused":                   {time.Second, []live.Session{listed, paused, paused}, true},
		"all have listed":                   {time.Second, []live.Session{listed, listed}, true},
	} {
		s := &live.Snapshot{Time: now, Positioned: now.Add(-test.last), Streams: map[change.StreamID]live.Stream{},
			Slots: map[int]live.Slot{0: {Held: true, StreamsKnown: true}}}
		for i, session := range test.all {
			s.Streams[change.StreamID(rune('a'+i))] = live.Stream{Session: session}
		}
		if r := ReportOf(s); r.Ready != test.ready {
			t.Errorf("%s: ready %v, want %v: %+v", name, r.Ready, test.ready, r.Problems)
		}
	}
}
