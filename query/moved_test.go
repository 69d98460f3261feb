package query_test

import (
	"testing"
	"time"

	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// A time that may be moved is moved to the last second at which the state is certain. The answer is what existed then, whatever failed
// between the cluster and the log.
func TestAMovedTimeIsTheLastCertainOne(t *testing.T) {
	moved, refused := 0, 0
	question := query.Question{Objects: sinks.Objects{Resources: []string{"pods"}}}
	for seed := uint64(0); moved < 2000; seed++ {
		m := newModel(seed)
		for range 4 {
			m.watch(3 + m.IntN(5))
			m.behind()
			m.outage()
		}
		m.watch(3)
		read := func(moment timeline.Target) *query.State {
			states, err := query.ReadStates(t.Context(), m.log, question, moment)
			must(t, err)
			return states[0]
		}
		for range 40 {
			when := began.Add(time.Duration(m.Int64N(int64(m.now.Sub(began) + time.Minute)))).Truncate(time.Second)
			s := read(timeline.Target{Happened: when, Back: timeline.MostBack})
			answered := s.Moment.Happened
			if len(s.Missing) > 0 {
				refused++
				continue
			}
			if got, want := names(t, s), m.truth(func(p past) bool { return !p.from.After(answered) }); got != want {
				t.Fatalf("seed %d, %s moved to %s: %s, want %s", seed, when, answered, got, want)
			}
			if answered.Equal(when) {
				continue
			}
			if moved++; answered.After(when) || when.Sub(answered) > timeline.MostBack {
				t.Fatalf("seed %d: %s is moved to %s", seed, when, answered)
			}
			for later := when; moved%10 == 0 && later.After(answered); later = later.Add(-time.Second) {
				if len(read(timeline.Target{Happened: later}).Missing) == 0 {
					t.Errorf("seed %d: %s is moved to %s, and %s is certain", seed, when, answered, later)
				}
			}
		}
	}
	t.Logf("%d were moved, %d refused", moved, refused)
}
