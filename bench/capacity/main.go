// Command capacity plans an exporter for a large cluster from measured costs, and holds the plan against a run of a part of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kubecdc/test/child"
)

// The go command that runs it passes no SIGTERM on.
func init() { child.EndWithParent() }

func main() {
	t := &trial{result: result{Memory: map[int]float64{}}}
	flag.Float64Var(&t.nodes, "nodes", 5000, "nodes of the cluster")
	flag.Float64Var(&t.pods, "pods", 150000, "pods of the cluster")
	flag.Float64Var(&t.podsADay, "pods-a-day", 1e6, "pods that are created in a day")
	flag.Float64Var(&t.scale, "scale", 1, "part of its objects and rates")
	flag.IntVar(&t.slots, "slots", 10, "slots")
	flag.IntVar(&t.processes, "processes", 3, "processes")
	commit := flag.Duration("commit", 15*time.Millisecond, "from the begin of a batch to that of the next, at least")
	flag.IntVar(&t.minutes, "minutes", 0, "run it for so long")
	flag.StringVar(&t.file, "result", "capacity.json", "file for the result of a run")
	compares := flag.Bool("against", false, "hold the plan against that file")
	flag.Parse()
	t.settings = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := t.do(ctx, *compares, setup{t.slots, t.processes, commit.Seconds()})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// do runs a trial, compares one, or prints the plan.
func (t *trial) do(ctx context.Context, compares bool, s setup) error {
	if t.minutes > 0 {
		if err := t.run(ctx); err != nil {
			return err
		}
	}
	if t.minutes > 0 || compares {
		r, err := readResult(t.file)
		if err != nil {
			return err
		}
		return r.compare()
	}
	p, err := t.plan(s)
	if err == nil {
		p.print(t.cluster, s)
	}
	return err
}
