// Command demo shows in about a minute what kubecdc does. It starts a cluster, a broker and a database, and runs the exporter between
// them. It breaks what can break, and compares the topics with etcd's own history.
//
// KEEP=1 leaves everything running at its end. DEMO_KAFKA=fake and DEMO_CHECKPOINT=sqlite force the substitutes for a missing Java or Postgres.
// The exit code is 0 if the topics hold exactly what happened, 1 if not, 130 after Ctrl-C.
//
// Start reading at tour.go. The demo knows the exporter as its users do: by its settings, its topics and /readyz.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kubecdc/test/child"
)

// The go command that runs it passes no SIGTERM on.
func init() { child.EndWithParent() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the demo at once, and the kernel ends what it started
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	s := newScreen(os.Stdout)
	err := runTour(ctx, s)
	switch {
	case ctx.Err() != nil:
		s.remark("Stopped.")
		return 130
	case errors.Is(err, errDiffers):
		return 1
	case err != nil:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		return 1
	}
	return 0
}
