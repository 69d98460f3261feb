package rewind

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/replay"
	"kubecdc/setup"
	"kubecdc/sinks/kafka"
)

const offsetsHelp = `Move a consumer group to a checkpoint, so that it reads what came after.

Without --execute the command only prints the plan. The group must have no
members when it is moved. The plan has the topics in which the group has offsets,
or for a new group the topics of all resources. --topic chooses others.

  exporter checkpoints offsets 90m --group shop-search
  exporter checkpoints offsets 0/1234 --group shop-search --execute`

// groupFlags select what is moved of a consumer group.
type groupFlags struct {
	group               string
	topics              []string
	execute, incomplete bool
}

func newCheckpointsOffsets() *cobra.Command {
	var out cli.Output
	var g groupFlags
	c := cli.WithOutput(&cobra.Command{
		Use:   "offsets CHECKPOINT|TIME --group GROUP [flags]",
		Short: "Print the offsets of a consumer group at a checkpoint, or move it there",
		Long:  offsetsHelp,
		Args:  cli.Args(1, 1),
	}, &out)
	c.Flags().StringVar(&g.group, "group", "", "the consumer group")
	c.Flags().StringSliceVar(&g.topics, "topic", nil, "only these topics")
	c.Flags().BoolVar(&g.execute, "execute", false, "commit the offsets, instead of only printing the plan")
	c.Flags().BoolVar(&g.incomplete, "incomplete", false,
		"execute even if the log has lost what came after the checkpoint, from the nearest offsets")
	return cli.OnCheckpoints(c, func(ctx context.Context, p *cli.Checkpoints, args []string) error {
		return moveGroup(ctx, p, args[0], g, &out)
	})
}

func moveGroup(ctx context.Context, p *cli.Checkpoints, text string, g groupFlags, out *cli.Output) error {
	if g.group == "" {
		return fault.Usage("--group: name the consumer group")
	}
	sink, err := setup.OpenBroker(ctx, p.Settings, p.Cluster)
	if err != nil {
		return err
	}
	defer sink.Close()
	found, err := find(ctx, p, text)
	if err != nil {
		return err
	}
	group, err := sink.Group(ctx, g.group)
	if err != nil {
		return err
	}
	now, err := replay.FindAt(ctx, p.Store, p.Now)
	if err != nil {
		return err
	}
	topics, err := replay.GroupTopics(now, found, group.Offsets, g.topics, p.Settings.Kafka.TopicPrefix)
	if err != nil {
		return err
	}
	starts, ends, err := sink.Bounds(ctx, topics)
	if err != nil {
		return err
	}
	plan := replay.PlanGroup(topics, found.Offsets, group.Offsets, starts, ends)
	if err := printGroup(p, out, g.group, found, group, plan); err != nil || !g.execute {
		return err
	}
	gone := slices.ContainsFunc(plan, func(r replay.GroupPartition) bool { return r.Gone != "" })
	if gone && !g.incomplete {
		return errors.New("the log lacks some of what came after the checkpoint, as the plan says; nothing was changed. " +
			"--incomplete goes on from the nearest offsets")
	}
	if err := sink.CommitGroup(ctx, g.group, replay.NewOffsets(plan)); err != nil {
		return err
	}
	plain.Fprintf(p.Errs, "consumer group %s is at checkpoint %s\n", g.group, found.Name)
	return nil
}

func printGroup(p *cli.Checkpoints, out *cli.Output, name string, c *replay.Checkpoint, group kafka.Group,
	plan []replay.GroupPartition) error {
	if len(group.Members) > 0 {
		plain.Fprintln(p.Errs, "note: "+(&kafka.GroupBusyError{Group: name, Members: group.Members}).Error())
	}
	for _, topic := range c.Shared() {
		if slices.ContainsFunc(plan, func(r replay.GroupPartition) bool { return r.Topic == topic }) {
			plain.Fprintf(p.Errs, "note: several slots write to %s: nothing after the checkpoint is skipped, but some records "+
				"from before it "+
				"come again; their headers slot and batch tell\n", topic)
		}
	}
	return out.Print(p.Out, plan, func(t io.Writer) {
		plain.Fprintf(t, "TOPIC\tPARTITION\tCURRENT\tNEW\tLOG START\tLOG END\tLAG\tNOTE\n")
		for _, r := range plan {
			current := "-"
			if r.Current >= 0 {
				current = strconv.FormatInt(r.Current, 10)
			}
			plain.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Topic, r.Partition, current, r.New, r.Start, r.End, r.Lag,
				r.Gone)
		}
	})
}
