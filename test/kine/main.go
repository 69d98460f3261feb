// Command kine is kine: etcd's API on top of an SQL database, as k3s uses it. It
// has a module of its own, since it needs other versions of much that the rest of the project needs.
//
//	kine --endpoint=postgres://… --listen-address=tcp://127.0.0.1:PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/k3s-io/kine/pkg/app"
)

func main() {
	if err := app.New().Run(os.Args); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
