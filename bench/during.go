package main

import (
	"syscall"
	"time"
)

// during measures what the exporter uses while something happens. Allocations are in total.
func (e *exporter) during(happens func() error) (r result, err error) {
	allocations := e.metric("go_memstats_mallocs_total")
	first, err := e.usage()
	if err != nil {
		return r, err
	}
	e.signal(syscall.SIGUSR1)
	started := time.Now()
	if err := happens(); err != nil {
		return r, err
	}
	r.wall = time.Since(started)
	last, err := e.usage()
	e.signal(syscall.SIGUSR2)
	r.cpu, r.peak = last.cpu-first.cpu, last.peak
	r.allocs = e.metric("go_memstats_mallocs_total") - allocations
	return r, err
}

// signal begins and ends a profile.
func (e *exporter) signal(s syscall.Signal) {
	if e.profiled {
		_ = e.cmd.Process.Signal(s)
		time.Sleep(time.Second) // while it is written
	}
}
