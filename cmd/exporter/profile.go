//go:build profile && unix

package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// Built with the tag profile, the exporter writes a CPU profile of the time between SIGUSR1 and SIGUSR2 into the
// file that KUBECDC_PROFILE names, and its allocations beside it. The bench uses it; releases are built without it.
func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for range signals {
			name := os.Getenv("KUBECDC_PROFILE")
			file, err := os.Create(name)
			if err != nil {
				panic(err)
			}
			if err := pprof.StartCPUProfile(file); err != nil {
				panic(err)
			}
			<-signals
			pprof.StopCPUProfile()
			file.Close()
			if allocs, err := os.Create(name + ".allocs"); err == nil {
				_ = pprof.Lookup("allocs").WriteTo(allocs, 0)
				allocs.Close()
			}
		}
	}()
}
