// Command capacity plans an exporter for a large cluster from measured costs, and holds the plan against a run of a scaled one.
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
	c := cluster{}
	flag.Float64Var(&c.nodes, "nodes", 5000, "nodes of the cluster")
	flag.Float64Var(&c.pods, "pods", 150000, "pods of the cluster")
	flag.Float64Var(&c.podsADay, "pods-a-day", 1e6, "pods that are created in a day")
	flag.Float64Var(&c.scale, "scale", 1, "part of the cluster")
	slots := flag.Int("slots", 10, "slots")
	processes := flag.Int("processes", 3, "processes")
	minutes := flag.Float64("minutes", 0, "run a part of the cluster for so long")
	kill := flag.Bool("kill", true, "kill a process at half time")
	rest := flag.Duration("rest", time.Minute, "time without changes before it")
	out := flag.String("out", "measured.json", "file for what was measured")
	against := flag.String("against", "", "hold the plan against a file of -out")
	commit := flag.Duration("commit", 15*time.Millisecond, "time of a batch")
	flag.Parse() // what follows are settings of the exporters
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	t := &trial{cluster: c, slots: *slots, processes: *processes, rest: *rest, more: flag.Args(), out: *out, memory: map[int]int64{}}
	err := do(ctx, t, *against, *commit, time.Duration(*minutes*float64(time.Minute)), *kill)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// do runs a trial, compares one, or prints the plan.
func do(ctx context.Context, t *trial, against string, commit, during time.Duration, kill bool) error {
	if during > 0 {
		if err := runTrial(ctx, t, during, kill); err != nil {
			return err
		}
		against = t.out
	}
	if against != "" {
		m, err := readMeasured(against)
		if err != nil {
			return err
		}
		return m.against()
	}
	s := setup{t.slots, t.processes, commit.Seconds()}
	p, err := t.plan(s)
	if err == nil {
		p.print(t.cluster, s)
	}
	return err
}
