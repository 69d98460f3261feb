package wait

import (
	"context"
	"sync"
	"time"
)

const (
	tick = 250 * time.Millisecond
	late = time.Second // a tick that comes so late was held up
)

var process struct {
	sync.Mutex
	ticked   time.Time // zero: nobody watches
	from, to time.Time // the last stall
}

// WatchStalls notices until the context ends when this process did not run: it was suspended, its machine slept, or other
// processes had all processors.
func WatchStalls(ctx context.Context) {
	Every(ctx, tick, func() { record(true) })
	process.Lock()
	defer process.Unlock()
	process.ticked = time.Time{}
}

func record(watching bool) {
	now := time.Now().Round(0) // a machine that sleeps stops the monotonic clock
	process.Lock()
	defer process.Unlock()
	p := &process
	if !watching && p.ticked.IsZero() {
		return
	}
	if !p.ticked.IsZero() && now.Sub(p.ticked) > late {
		p.from, p.to = p.ticked, now
	}
	p.ticked = now
}

// StalledSince returns when the last stall began, if it ended after a time.
func StalledSince(t time.Time) (from time.Time, stalled bool) {
	record(false) // whoever waited may run before the next tick
	process.Lock()
	defer process.Unlock()
	return process.from, process.to.After(t.Round(0))
}
