// Command servers installs the real servers that the tests and the demo use:
//
//	servers install [kubernetes] [kafka] [postgres] [pgbouncer] [kubectl] [registry] [older-kafka]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kubecdc/test/servers"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "install" {
		return errors.New("usage: servers install [kubernetes] [kafka] [postgres] [pgbouncer] [kubectl] [registry] [older-kafka]")
	}
	start := time.Now()
	var parts []servers.Part
	for _, name := range args[1:] {
		parts = append(parts, servers.Part(name))
	}
	missing, err := servers.Install(ctx, say, parts...)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return errors.New(missing.String())
	}
	say("servers installed: " + time.Since(start).Round(10*time.Millisecond).String())
	return nil
}

func say(line string) { fmt.Fprintln(os.Stderr, line) }
