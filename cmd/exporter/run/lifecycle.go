package run

import (
	"time"

	"kubecdc/audit"
	"kubecdc/export/live"
	"kubecdc/export/session"
	"kubecdc/internal/dependency"
	"kubecdc/observe"
	"kubecdc/sinks/stdout"
)

// lifecycle is a running exporter and its HTTP server.
type lifecycle struct {
	*live.Exporter
	*observe.Metrics
	status *observe.Status
	url    string // address of the server, or ""
	*display
	show  stdout.Show
	audit *audit.Intake // nil: audit events are not accepted
}

// waitsFor shows in /readyz and /metrics what the start waits for. A nil error clears it.
func (w *lifecycle) waitsFor(err error) { w.Waits(dependency.WaitsOn(err), err) }

const (
	grace      = 2 * time.Second        // for closing connections after the shutdown timeout
	startGrace = 300 * time.Millisecond // for releasing a lease if no work has begun
)

// mayEnd returns how long the process may take to stop, and the error if it takes longer. The error is nil if no work has begun.
func (w *lifecycle) mayEnd(shutdownTimeout time.Duration) (time.Duration, error) {
	if w.HasHeld() {
		return shutdownTimeout + grace, session.ErrShutdownTimeout
	}
	return startGrace, nil
}
