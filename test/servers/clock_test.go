package servers_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// While all processors are busy, a Clock is slower than time.
func TestWaitsArePatientWhileTheMachineIsBusy(t *testing.T) {
	busy, idle := context.WithCancel(t.Context())
	defer idle()
	for range 2 * runtime.NumCPU() {
		go func() {
			for busy.Err() == nil {
			}
		}()
	}
	began, clock := time.Now(), servers.StartClock()
	for time.Since(began) < time.Second {
	}
	if passed, elapsed := clock.Passed(), time.Since(began); passed > elapsed/2 || passed < elapsed/20 {
		t.Errorf("%s passed in %s", passed, elapsed)
	}
}
