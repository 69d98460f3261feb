package main

import (
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/audit"
	"kubecdc/export"
	"kubecdc/internal/startup"
	"kubecdc/observe"
)

// lifecycle passes events on to the observers, and notes whether a slot was ever held: before that nothing is in flight.
type lifecycle struct {
	*observe.Exporter
	status *observe.Status
	url    string // where it is served; empty: nowhere
	begun  atomic.Bool
	hint   sync.Once
	audit  *audit.Intake // nil: no audit events are taken in
}

// SlotHeld notes that work has begun.
func (w *lifecycle) SlotHeld(slot int, epoch int64, held bool) {
	if held {
		w.begun.Store(true)
	}
	w.Exporter.SlotHeld(slot, epoch, held)
}

// waitsFor shows in /readyz and /metrics what the start waits for, and clears it on nil.
func (w *lifecycle) waitsFor(err error) { w.Health.Waits(startup.WaitsOn(err), err) }

const (
	grace      = 2 * time.Second        // for closing connections after the shutdown timeout
	startGrace = 300 * time.Millisecond // for releasing a lease if no work has begun
)

// mayEnd returns how long the process may take to stop, and the error if it takes longer: none if no work has begun.
func (w *lifecycle) mayEnd(shutdownTimeout time.Duration) (time.Duration, error) {
	if w.begun.Load() {
		return shutdownTimeout + grace, export.ErrShutdownTimeout
	}
	return startGrace, nil
}
