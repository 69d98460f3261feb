// Command compat has other people's consumers read the exporter's topics, and writes docs/compatibility.md with what it saw.
//
//	go run ./test/compat                  all consumers; the first time installs them, which takes minutes
//	go run ./test/compat -only flink,kcat some; the page keeps what earlier runs say of the others
//
// It starts a cluster, a broker and a database, and one exporter for each log. Each consumer's table is compared with the
// objects of the API server: their number, and a hash of all keys and contents. If it is interrupted, the page has what was run.
// Start reading at trial.go; consumers.go has the consumers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

func init() { child.EndWithParent() }

func main() {
	only := flag.String("only", "", "consumers to run, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only)
	stop()
	if err = errors.Join(err, servers.StopAll()); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	t, err := newTrial(ctx, chosen)
	if err != nil {
		return err
	}
	err = t.run(ctx)
	ctx = context.WithoutCancel(ctx)
	return errors.Join(err, t.writePage(ctx, "docs/compatibility.md", "test/compat/results.json"), t.verdict())
}

// choose returns the consumers of that name; all, if there is no name.
func choose(only string) (chosen []consumer, err error) {
	if only == "" {
		return consumers, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, c := range consumers {
			if c.name == name {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("-only %s: no such consumer; there are %s", name, names(consumers))
		}
	}
	return chosen, nil
}

func names(all []consumer) string {
	var list []string
	for _, c := range all {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}
