//go:build profile && unix

package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// init adds a profiler to builds with the tag profile. Between SIGUSR1 and SIGUSR2 it writes a CPU profile to the file in
// KUBECDC_PROFILE, and then the allocations to that name with .allocs. The bench uses it. Releases do not include it.
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
