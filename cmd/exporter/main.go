// Command exporter writes the changes of a Kubernetes cluster to a log. It reads settings, joins the parts, and
// turns errors into messages and exit codes; what the parts do is in their packages.
package main

import (
	"context"
	"os"
)

func main() {
	ctx, stop := withSignals(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
