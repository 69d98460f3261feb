// Package rewind has the commands that go back in the log: checkpoints and replay.
package rewind

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/replay"
)

const checkpointsHelp = `Show earlier checkpoints.

With the embedded log each batch is a checkpoint, for KUBECDC_SQLITE_HISTORY.
With other sinks the checkpoint store retains the last one of each second, for
KUBECDC_HISTORY_RETENTION. The log gets a batch up to a second earlier. Each slot
has its own checkpoints. Slot and batch name one, such as 0/1234. It stands for
all slots at that moment: the last checkpoint of each other slot by then belongs
to it. A time (2026-11-22T10:53:56Z), how long ago (2h), or now means the last
checkpoint stored by then.

These commands write nothing to the store, and work while the exporter runs.
They need no API server if KUBECDC_CLUSTER or a kubeconfig names the cluster.

  exporter checkpoints list --since 1h
  exporter checkpoints show 0/1234
  exporter checkpoints offsets 0/1234 --group shop-search`

// NewCheckpoints returns the command exporter checkpoints.
func NewCheckpoints() *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoints",
		Short: "List and show earlier checkpoints; move a consumer group to one",
		Long:  checkpointsHelp,
		Args:  cli.UnknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newCheckpointsList(), newCheckpointsShow(), newCheckpointsOffsets())
	return c
}

func newCheckpointsList() *cobra.Command {
	var out cli.Output
	var since, until string
	limit := 20
	c := cli.WithOutput(&cobra.Command{
		Use: "list [flags]",
		Long: `List checkpoints, newest first.

  exporter checkpoints list --limit 4
  exporter checkpoints list --since 2h --until 90m`,
		Short: "List checkpoints, newest first",
		Args:  cli.Args(0, 0),
	}, &out)
	c.Flags().StringVar(&since, "since", "", "only checkpoints stored at this time or later: a time, or how long ago (90m)")
	c.Flags().StringVar(&until, "until", "", "only checkpoints stored at this time or earlier")
	c.Flags().IntVar(&limit, "limit", limit, "at most this many, newest first; 0: all")
	return cli.OnCheckpoints(c, func(ctx context.Context, p *cli.Checkpoints, _ []string) error {
		if limit < 0 {
			return fault.Usage("--limit: a number of checkpoints, or 0 for all")
		}
		from, err1 := timeOf(p, "--since", since)
		to, err2 := timeOf(p, "--until", until)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		rows, err := replay.List(ctx, p.Store, checkpoint.Window{Limit: limit, Since: from, Until: to})
		if err != nil {
			return err
		}
		return printList(&out, p.Out, rows)
	})
}

type listed struct {
	Name       string            `json:"name"`
	Time       time.Time         `json:"time"`
	Slot       int               `json:"slot"`
	Epoch      int64             `json:"epoch"`
	Batch      uint64            `json:"batch"`
	Positions  []change.Position `json:"positions"` // positions that moved in the second of the checkpoint
	Partitions int               `json:"partitions"`
}

func printList(o *cli.Output, out io.Writer, rows []checkpoint.Checkpoint) error {
	list := make([]listed, len(rows))
	for i := range rows {
		r := &rows[i]
		partitions := 0
		for _, offsets := range r.Offsets {
			partitions += len(offsets)
		}
		list[i] = listed{replay.Name(r), r.Time, r.Slot, r.Epoch, r.Seq, r.Positions, partitions}
	}
	return o.Print(out, list, func(t io.Writer) {
		plain.Fprintf(t, "CHECKPOINT\tSTORED\tSLOT\tEPOCH\tSTREAMS MOVED\tPARTITIONS\n")
		for _, l := range list {
			plain.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", l.Name, cli.Stamp(l.Time), l.Slot, l.Epoch, len(l.Positions),
				l.Partitions)
		}
	})
}

func newCheckpointsShow() *cobra.Command {
	var out cli.Output
	c := cli.WithOutput(&cobra.Command{
		Use: "show CHECKPOINT|TIME [flags]",
		Long: `Show a checkpoint: each stream's position, and the offsets after it.

  exporter checkpoints show 0/1234
  exporter checkpoints show 90m -o json`,
		Short: "Show a checkpoint: each stream's position, and the offsets after it",
		Args:  cli.Args(1, 1),
	}, &out)
	return cli.OnCheckpoints(c, func(ctx context.Context, p *cli.Checkpoints, args []string) error {
		found, err := find(ctx, p, args[0])
		if err != nil {
			return err
		}
		return out.Print(p.Out, found, func(t io.Writer) { showCheckpoint(t, found) })
	})
}

func showCheckpoint(t io.Writer, c *replay.Checkpoint) {
	plain.Fprintf(t, "CHECKPOINT\tSTORED\tSLOT\tEPOCH\tBATCH\n")
	for _, s := range c.Slots {
		plain.Fprintf(t, "%d/%d\t%s\t%d\t%d\t%d\n", s.Slot, s.Batch, cli.Stamp(s.Time), s.Slot, s.Epoch, s.Batch)
	}
	plain.Fprintf(t, "\nSTREAM\tCOMPLETE UP TO\tAT\tENDED\n")
	for _, p := range c.Positions {
		plain.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Stream, p.ResourceVersion, cli.Stamp(p.Time), p.Ended)
	}
	if len(c.Offsets) == 0 {
		return
	}
	plain.Fprintf(t, "\nTOPIC\tPARTITION\tNEXT OFFSET\n")
	for _, topic := range slices.Sorted(maps.Keys(c.Offsets)) {
		for _, p := range slices.Sorted(maps.Keys(c.Offsets[topic])) {
			plain.Fprintf(t, "%s\t%d\t%d\n", topic, p, c.Offsets[topic][p])
		}
	}
}

// timeOf parses the time in a flag. It returns a zero time for an empty flag.
func timeOf(p *cli.Checkpoints, flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	m, err := cli.ParseMoment(flag, text, moment.Times)
	return cmp.Or(m.Time, p.Now), err
}

func find(ctx context.Context, p *cli.Checkpoints, text string) (*replay.Checkpoint, error) {
	m, err := cli.ParseMoment("the checkpoint", text, moment.Times|moment.Checkpoints)
	if err != nil {
		return nil, err
	}
	c, err := replay.Find(ctx, p.Store, m, p.Now)
	return c, err
}
