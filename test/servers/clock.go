package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Patience is how long a test waits in vain for anything, on a Clock. It is far above the time that anything takes, so it says nothing
// of speed. Only for what never comes a test waits so long.
const Patience = 5 * time.Minute

// Clock measures time as far as the machine has processors to spare. While all processors are busy, with any work, it runs at a tenth of
// the pace. So what is only slow is not late.
type Clock struct {
	began time.Time
	idle  time.Duration
}

// StartClock starts one.
func StartClock() *Clock {
	idle, _ := idled()
	return &Clock{began: time.Now(), idle: idle}
}

// Passed is how much time has passed.
func (c *Clock) Passed() time.Duration {
	elapsed := time.Since(c.began)
	idle, known := idled()
	if !known {
		return elapsed
	}
	return max(elapsed/10, min(elapsed, (idle-c.idle)/time.Duration(runtime.NumCPU())))
}

// Late reports whether enough has been waited.
func (c *Clock) Late() bool { return c.Passed() > Patience }

// idled returns how long the processors have had nothing to do, all together. That is not known without /proc.
func idled() (idle time.Duration, known bool) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, false
	}
	var up, seconds float64
	_, err = fmt.Sscan(string(text), &up, &seconds)
	return time.Duration(seconds * float64(time.Second)), err == nil
}

// errLate is why a Patient context ends.
var errLate = errors.New("nothing has moved for long")

// Patient is a context that ends when enough has been waited.
func Patient(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		for clock := StartClock(); ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(max(Patience-clock.Passed(), 10*time.Millisecond)):
				if clock.Late() {
					cancel(fmt.Errorf("%w: %s with processors to spare", errLate, Patience))
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Context returns a test's own context, which also ends when Patience is over. So a request that a broker never answers fails one test,
// and does not hold up all.
func Context(t testing.TB) context.Context {
	ctx, cancel := Patient(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// Await checks the condition until it holds. It fails the test on an error, and when Patience is over.
func Await(t testing.TB, what string, condition func() (bool, error)) {
	t.Helper()
	must(t, Until(context.Background(), what, condition))
}

// Until is Await for code that is no test. Checks take a sixth of the time at most, so that what is waited for has the processors.
func Until(ctx context.Context, what string, condition func() (bool, error)) error {
	for clock, began := StartClock(), time.Now(); ; {
		started := time.Now()
		late := clock.Late() // before the look, which may take long
		switch ok, err := condition(); {
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", what, err)
		case ok:
			return nil
		case late:
			return fmt.Errorf("waited %s, %s of it with processors to spare, in vain for %s", time.Since(began).Round(time.Second), Patience, what)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(min(max(pollEvery, 5*time.Since(started)), 2*time.Second)):
		}
	}
}
