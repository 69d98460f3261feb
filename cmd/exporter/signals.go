package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
)

// withSignals returns a context that ends with the first SIGINT or SIGTERM: the process then drains. The second signal ends
// the process at once.
func withSignals(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		plain.Fprintf(os.Stderr, "exporter: ended at once; the next start resumes from the checkpoint\n")
		os.Exit(cli.ExitKilled)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}
