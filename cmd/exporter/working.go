package main

import (
	"sync/atomic"
	"time"

	"kubecdc/export"
	"kubecdc/observe"
)

// working tells the observers, and knows whether work has begun: before that there is nothing in flight to wait for.
type working struct {
	*observe.Exporter
	begun atomic.Bool
}

// SlotHeld: from the first slot on there is work.
func (w *working) SlotHeld(slot int, epoch int64, held bool) {
	if held {
		w.begun.Store(true)
	}
	w.Exporter.SlotHeld(slot, epoch, held)
}

// waitsFor shows in /readyz what the start waits for; nil when it goes on.
func (w *working) waitsFor(err error) {
	if err == nil {
		w.Health.Clear("start")
		return
	}
	w.Health.Problem("start", err)
}

const (
	grace      = 2 * time.Second        // what closing connections may take after the shutdown timeout
	startGrace = 300 * time.Millisecond // what giving back a lease may take where no work has begun
)

// mayEnd says how long the process may go on after it was told to stop, and what it means when that is not enough. Where no
// work has begun it means nothing.
func (w *working) mayEnd(shutdownTimeout time.Duration) (time.Duration, error) {
	if w.begun.Load() {
		return shutdownTimeout + grace, export.ErrShutdownTimeout
	}
	return startGrace, nil
}
