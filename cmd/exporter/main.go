// Command exporter writes the changes of a Kubernetes cluster to a log. It reads settings, joins the parts, and
// turns errors into messages and exit codes.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"runtime/debug"
)

// gcPercent trades a little CPU for memory: a first snapshot of 100,000 objects remains below 100 MB (docs/performance.md). The
// environment variable GOGC overrides it.
const gcPercent = 30

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log.SetOutput(io.Discard) // net/http prints what a server sends unasked, which may be an object
	ctx, stop := withSignals(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
