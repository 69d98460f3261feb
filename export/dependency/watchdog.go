package dependency

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// StalledAfter is how long an answer may take before the log and /readyz say what is waited for.
const StalledAfter = 2 * time.Second

// Observer is told of calls that have had no answer for StalledAfter.
type Observer interface {
	// Stalled names the oldest call to a dependency that has had no answer; nil when there is none.
	Stalled(dependency string, err error)
}

// Watchdog notices calls that have had no answer for StalledAfter. A server that is frozen, or a network that loses every
// packet, gives no error for as long as the call's own timeout.
type Watchdog struct {
	observer Observer
	logger   *slog.Logger

	mu      sync.Mutex
	stalled map[string][]*Call // by dependency, those that have been reported, oldest first
}

// Call is one thing that is waited for, over all attempts at it.
type Call struct {
	*Watchdog
	dependency, what string
	since            time.Time
	timer            *time.Timer

	err   error // of the last attempt; under Watchdog.mu
	ended bool  // likewise
}

// NewWatchdog gives one that watches over no call yet.
func NewWatchdog(observer Observer, logger *slog.Logger) *Watchdog {
	return &Watchdog{observer: observer, logger: logger, stalled: map[string][]*Call{}}
}

// Begin starts to wait for a dependency's answer, until End.
func (d *Watchdog) Begin(dependency, what string) *Call {
	c := &Call{Watchdog: d, dependency: dependency, what: what, since: time.Now()}
	c.timer = time.AfterFunc(StalledAfter, c.report)
	return c
}

// report says that the call takes long. Of many calls that wait for a dependency, the log has the first.
func (c *Call) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if len(c.stalled[c.dependency]) == 0 {
		c.logger.Warn("no answer yet", "part", c.dependency, "error", c.Error())
	}
	c.stalled[c.dependency] = append(c.stalled[c.dependency], c)
	c.observer.Stalled(c.dependency, c.stalled[c.dependency][0])
}

// Failed notes the error of an attempt; others follow.
func (c *Call) Failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; len(c.stalled[c.dependency]) > 0 && c.stalled[c.dependency][0] == c {
		c.observer.Stalled(c.dependency, c)
	}
}

// End says that the call is waited for no more.
func (c *Call) End() {
	if c.timer.Stop() {
		return // nothing was reported
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	waiting := c.stalled[c.dependency]
	for i, other := range waiting {
		if other == c {
			waiting = append(waiting[:i:i], waiting[i+1:]...)
		}
	}
	switch before := len(c.stalled[c.dependency]); {
	case len(waiting) == before:
	case len(waiting) == 0:
		c.observer.Stalled(c.dependency, nil)
		c.logger.Info("not waiting any more", "part", c.dependency, "after", time.Since(c.since).Round(time.Millisecond).String())
	default:
		c.observer.Stalled(c.dependency, waiting[0])
	}
	c.stalled[c.dependency] = waiting
}

// Error says what is waited for and since when. It is asked under Watchdog.mu.
func (c *Call) Error() string {
	text := fmt.Sprintf("no answer since %s; waiting for: %s", c.since.UTC().Format(time.RFC3339), c.what)
	if c.err != nil {
		text += fmt.Sprintf("; last error: %v", c.err)
	}
	return text
}
