package streams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/source/reflector"
)

// answering is an API server that answers other requests in some intervals.
type answering struct {
	every    time.Duration // 0: none
	began    time.Time
	asked    int // how often it is asked for a sign of life
	lastSign time.Time
	fails    bool
}

func (a *answering) Answered(over *reflector.Connection) time.Time {
	if over == nil || a.fails {
		return time.Time{}
	}
	last := a.lastSign
	if a.every > 0 {
		if other := a.began.Add(time.Since(a.began).Truncate(a.every)); other.After(last) {
			last = other
		}
	}
	return last
}

func (a *answering) Confirm(context.Context) (*reflector.Connection, time.Time) {
	a.asked++
	if a.fails {
		return nil, time.Now()
	}
	a.lastSign = time.Now()
	return &reflector.Connection{}, a.lastSign
}

// The API server is asked for a sign of life only while it answers nothing else. The signs are never as far from each other that
// streams would not count as complete in between.
func TestTheAPIServerIsAskedForASignOfLifeIfNoneComes(t *testing.T) {
	for name, c := range map[string]struct {
		api         answering
		least, most int // signs of life that are asked for in an hour
	}{
		"it is quiet":                      {answering{}, 700, 900},
		"it answers each second":           {answering{every: time.Second}, 1, 1},
		"it answers every three seconds":   {answering{every: 3 * time.Second}, 1, 1},
		"it answers once a minute":         {answering{every: time.Minute}, 600, 900},
		"its connection serves no other's": {answering{fails: true}, 700, 900},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, api := confirming{}, c.api
				api.began = time.Now()
				for range 3600 {
					time.Sleep(confirmTick)
					moment := x.sign(t.Context(), &api)
					if moment.IsZero() {
						continue
					}
					if gap := moment.Sub(x.last); !x.last.IsZero() && (gap > confirmedFor || gap <= 0) {
						t.Fatalf("a sign of life %s after the last one", gap)
					}
					x.last = moment
				}
				if api.asked < c.least || api.asked > c.most {
					t.Errorf("it was asked %d times", api.asked)
				}
			})
		})
	}
}
