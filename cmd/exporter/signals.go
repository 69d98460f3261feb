package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// withSignals gives a context that ends with the first SIGINT or SIGTERM: the process then drains. The second
// one ends the process at once.
func withSignals(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "exporter: ended at once; the next start goes on from the checkpoint")
		os.Exit(exitKilled)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}
