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

// gcPercent trades a little CPU for memory: a first snapshot of 100,000 objects stays below 100 MB
// (docs/performance.md). GOGC in the environment wins.
const gcPercent = 30

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log.SetOutput(io.Discard) // net/http prints the beginning of what a server sends unasked, which may be an object
	ctx, stop := withSignals(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
