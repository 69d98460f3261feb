// Command bench measures the exporter: the real binary between a synthetic API server, a real Kafka and a real Postgres. Each is a
// process of its own, so that the CPU of each is counted separately. It prints one table. It also measures other programs that bring
// changes into Kafka (bench/peers), and a program that only reads the same bytes, in the same run. So the ratios hold on any machine.
// Start reading at rows.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"kubecdc/test/child"
)

// The go command that runs it passes no SIGTERM on.
func init() { child.EndWithParent() }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		exit(floor(os.Args[2:]))
	}
	only := flag.String("only", "", "measure only the rows whose names match this regular expression")
	profile := flag.String("profile", "", "write CPU profiles of the exporter, one a row, into this folder")
	scale := flag.Float64("scale", 1, "multiply the number of events and objects")
	times := flag.Int("times", 1, "go through the rows so many times; medians are compared")
	peers := flag.Bool("peers", false, "measure kube-rs and OpenTelemetry's collector too; they are built, from bench/peers")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = run(ctx, os.Stdout, plan{only: pattern, profile: *profile, scale: *scale, times: *times, peers: *peers})
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
