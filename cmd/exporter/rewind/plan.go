package rewind

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/replay"
	"kubecdc/setup"
)

func (r *replaying) plan(ctx context.Context, live string) (*replay.Plan, error) {
	q := replay.Request{Cluster: r.cluster, Log: live, From: r.begin, To: r.end, Incomplete: r.incomplete,
		Checkpoint: r.checkpoint}
	var err error
	q.Filter.Ops = strings.Join(r.ops, "")
	if q.Filter.Objects, err = r.Select(ctx, r.command, r.log, r.args); err != nil {
		return nil, err
	}
	p, err := q.Plan(ctx, r.log)
	if err != nil {
		return nil, err
	}
	show := cli.NewProgress(r.errs, "counting", 0, r.logger())
	defer show.End()
	if err := p.Count(ctx, r.log, show.Report); err != nil {
		return nil, err
	}
	for i := range p.Topics {
		p.Topics[i].To = r.place.TopicOf(r.settings.Kafka.TopicPrefix, p.Topics[i].Stream)
	}
	return p, nil
}

func (r *replaying) checkpoint(ctx context.Context, m moment.Moment) (*replay.Checkpoint, error) {
	store, err := setup.OpenPast(ctx, r.settings, r.cluster)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return replay.Find(ctx, store, m, time.Now())
}

func (r *replaying) printPlan(p *replay.Plan) error {
	return r.format.Print(r.out, p, func(t io.Writer) {
		plain.Fprintf(t, "REPLAY\t%s\n", p.ID)
		plain.Fprintf(t, "LOG\t%s, cluster %s\n", p.Log, p.Cluster)
		plain.Fprintf(t, "FROM\t%s\n", describeBound(p.From))
		plain.Fprintf(t, "TO\t%s\n", describeBound(p.To))
		plain.Fprintf(t, "TARGET\t%s\n\n", r.place.String())
		plain.Fprintf(t, "TOPIC\tTO\tRECORDS\tFIRST LOGGED\tLAST LOGGED\n")
		for _, topic := range p.Topics {
			plain.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", topic.Topic, topic.To, topic.Records, cli.Stamp(topic.First),
				cli.Stamp(topic.Last))
		}
		plain.Fprintf(t, "total\t\t%d\n", p.Records())
		for _, missing := range p.Incomplete {
			plain.Fprintf(r.errs, "note: incomplete: %s\n", missing)
		}
		for _, topic := range p.Topics {
			if topic.Stubs > 0 {
				plain.Fprintf(r.errs, "note: %d records of %s are stubs: the full records remain in the dead-letter topic of "+
					"the live log\n",
					topic.Stubs, topic.Topic)
			}
		}
	})
}

func describeBound(b replay.Bound) string {
	switch {
	case b.Clock == "logged":
		return cli.Stamp(b.Time) + ", by when the log got the change"
	case b.Clock == "checkpoint":
		return fmt.Sprintf("checkpoint %s, stored at %s", b.Text, cli.Stamp(b.Time))
	}
	return b.Clock
}

type replayed struct {
	*replay.Plan
	Written int64   `json:"written"`
	Seconds float64 `json:"seconds"`
}

func (r *replaying) printEnd(run *replay.Run, written int64, took time.Duration) error {
	result := replayed{run.Plan, run.Written(), took.Seconds()}
	if r.format.Format != "table" {
		return r.format.Print(r.out, result, nil)
	}
	plain.Fprintf(r.out, "replay %s is complete: %d records", run.Plan.ID, run.Written())
	if written < run.Written() {
		plain.Fprintf(r.out, ", %d of them now", written)
	}
	if written > 0 {
		plain.Fprintf(r.out, ", in %s, %.0f a second", took.Round(time.Millisecond), float64(written)/took.Seconds())
	}
	plain.Fprintf(r.out, "\n")
	if len(run.Plan.Next) == 0 {
		return nil
	}
	plain.Fprintf(r.out, "\na consumer goes on in the live topics at (topic,partition,offset)\n%s",
		plain.Own(plain.Lines(replay.CSV(run.Plan.Next))))
	for _, topic := range run.Plan.Shared {
		plain.Fprintf(r.errs, "note: several slots write to %s: a consumer that goes on there skips the records up to the "+
			"replay's end, by "+
			"their headers slot and batch: %v\n", topic, run.Plan.To.Cut.Batches)
	}
	return nil
}
