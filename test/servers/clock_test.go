package servers_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"kubecdc/test/servers"
)

// While all processors are busy, a wait goes on for longer than its limit; and it ends.
func TestWaitsArePatientWhileTheMachineIsBusy(t *testing.T) {
	busy, idle := context.WithCancel(t.Context())
	for range 2 * runtime.NumCPU() {
		go func() {
			for busy.Err() == nil {
			}
		}()
	}
	began := time.Now()
	late, cancel := servers.Patient(t.Context(), 300*time.Millisecond)
	defer cancel()
	select {
	case <-late.Done():
		t.Errorf("it ends after %s", time.Since(began))
	case <-time.After(time.Second):
	}
	idle()
	<-late.Done()
	t.Logf("it ends after %s: %v", time.Since(began), context.Cause(late))
}
