package dependency

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// StalledAfter is how long a call may be unanswered before the log and /readyz name it.
const StalledAfter = 2 * time.Second

// Observer receives calls that have been unanswered for StalledAfter.
type Observer interface {
	// Stalled is called with the oldest unanswered call to a dependency, or with nil when all are answered.
	Stalled(dependency string, err error)
}

// Watchdog reports calls that have been unanswered for StalledAfter. A frozen server, or a network that drops every packet,
// causes no error until the call's own timeout.
type Watchdog struct {
	observer Observer
	logger   *slog.Logger

	mu      sync.Mutex
	stalled map[string][]*Call // the reported calls by dependency, oldest first
}

// Call is one unanswered call, over all attempts.
type Call struct {
	*Watchdog
	dependency, what string
	since            time.Time
	timer            *time.Timer

	err   error // the last attempt's error, guarded by Watchdog.mu
	ended bool  // guarded by Watchdog.mu
}

// NewWatchdog returns a watchdog without calls.
func NewWatchdog(observer Observer, logger *slog.Logger) *Watchdog {
	return &Watchdog{observer: observer, logger: logger, stalled: map[string][]*Call{}}
}

// Begin starts to watch a call to a dependency, until End. what describes the call: "batch 7 of slot 0".
func (w *Watchdog) Begin(dependency, what string) *Call {
	c := &Call{Watchdog: w, dependency: dependency, what: what, since: time.Now()}
	c.timer = time.AfterFunc(StalledAfter, c.report)
	return c
}

// Do makes a call to a dependency under the watchdog, and attributes its error.
func (w *Watchdog) Do(dependency, what string, do func() error) error {
	defer w.Begin(dependency, what).End()
	return Tag(dependency, do())
}

// report reports the call as stalled. Only the first of several stalled calls to a dependency is logged.
func (c *Call) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if len(c.stalled[c.dependency]) == 0 {
		c.logger.Warn("no answer yet", "dependency", c.dependency, "error", c.Error())
	}
	c.stalled[c.dependency] = append(c.stalled[c.dependency], c)
	c.observer.Stalled(c.dependency, c.stalled[c.dependency][0])
}

// Failed records the error of an attempt that will be retried.
func (c *Call) Failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; len(c.stalled[c.dependency]) > 0 && c.stalled[c.dependency][0] == c {
		c.observer.Stalled(c.dependency, c)
	}
}

// End stops watching the call, whatever its result.
func (c *Call) End() {
	if c.timer.Stop() {
		return // the call was not reported
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	calls := c.stalled[c.dependency]
	i := slices.Index(calls, c)
	if i < 0 {
		return
	}
	calls = slices.Delete(calls, i, i+1)
	if c.stalled[c.dependency] = calls; len(calls) > 0 {
		c.observer.Stalled(c.dependency, calls[0])
		return
	}
	c.observer.Stalled(c.dependency, nil)
	c.logger.Info("no longer waiting for an answer", "dependency", c.dependency, "after",
		time.Since(c.since).Round(time.Millisecond).String())
}

// Unwrap returns the last error, or nil. The caller holds Watchdog.mu.
func (c *Call) Unwrap() error { return c.err }

// Error returns the call, the time of its begin, and its last error. The caller holds Watchdog.mu.
func (c *Call) Error() string {
	text := fmt.Sprintf("no answer since %s; waiting for: %s", c.since.UTC().Format(time.RFC3339), c.what)
	if c.err != nil {
		text += fmt.Sprintf("; last error: %v", c.err)
	}
	return text
}
