package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/change"
	"kubecdc/internal/plain"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// plan finds the bounds, checks what the log still has, and counts.
func (r *replaying) plan(ctx context.Context, live string) (*replay.Plan, error) {
	p := &replay.Plan{ID: replay.NewID(time.Now()), Cluster: r.cluster, Log: live, Filter: r.filter}
	if err := r.chooseResources(ctx, p); err != nil {
		return nil, err
	}
	end, err := r.log.End(ctx)
	if err != nil {
		return nil, err
	}
	if p.To, err = r.bound(ctx, p, "--to", r.to, end); err != nil {
		return nil, err
	}
	if p.From, err = r.bound(ctx, p, "--from", r.from, end); err != nil {
		return nil, err
	}
	if !p.From.Time.IsZero() && !p.To.Time.IsZero() && p.From.Time.After(p.To.Time) {
		return nil, &usageError{fmt.Sprintf("--from %s is after --to %s", r.from, r.to)}
	}
	if err := p.CheckKept(ctx, r.log, r.incomplete); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(p.Filter.Selector)
	if err != nil {
		return nil, err
	}
	show := newReplayProgress(r.settings, "counting", 0)
	defer show.end()
	if err := p.Count(ctx, r.log, selector, show.at); err != nil {
		return nil, err
	}
	for i := range p.Topics {
		p.Topics[i].To = r.target.topicOf(r.settings.Kafka.TopicPrefix, p.Topics[i].Stream)
	}
	return p, nil
}

// chooseResources names all resources of the log, or checks those that were given.
func (r *replaying) chooseResources(ctx context.Context, p *replay.Plan) error {
	known, err := r.log.Resources(ctx)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return fmt.Errorf("the log %s has nothing of cluster %s: are KUBECDC_CLUSTER and KUBECDC_KAFKA_TOPIC_PREFIX those of exporter run?",
			p.Log, r.cluster)
	}
	if len(p.Filter.Resources) == 0 {
		p.Filter.Resources = known
	}
	p.Filter.Resources, err = resourcesNamed(p.Filter.Resources, known, "--resource: the log has no changes of")
	return err
}

// bound finds a bound of the replay.
func (r *replaying) bound(ctx context.Context, p *replay.Plan, flag, text string, end sinks.Cut) (replay.Bound, error) {
	b := replay.Bound{Text: text}
	wrong := func(err error) (replay.Bound, error) { return b, &usageError{flag + " " + text + ": " + err.Error()} }
	_, _, named := replay.ParseName(text)
	_, digits := strconv.ParseUint(text, 10, 64)
	switch {
	case text == "start" && flag == "--from":
		b.Clock = "start of the log"
		return b, nil
	case text == "end" && flag == "--to":
		b.Clock, b.Cut = "end of the log", &end
		return b, nil
	case named:
		return r.checkpointBound(ctx, b)
	case digits == nil:
		if len(p.Filter.Resources) != 1 || len(r.filter.Resources) != 1 {
			return wrong(errors.New("resourceVersions are compared within one resource: name it with --resource"))
		}
		b.RV = change.ResourceVersion(text)
		if b.Clock = "object"; flag == "--to" {
			b.Cut = &end
			return b, nil
		}
		return b, r.versionBound(ctx, p.Filter.Resources[0], &b)
	}
	at, err := replay.ParseTime(text, time.Now())
	if err != nil {
		return wrong(fmt.Errorf("neither a checkpoint (0/1234), a resourceVersion, start nor end: %w", err))
	}
	if at.After(time.Now()) {
		return wrong(errors.New("that is in the future"))
	}
	b.Clock, b.Time = "logged", at
	cut, err := r.log.At(ctx, at)
	switch {
	case errors.Is(err, sinks.ErrNotKept) && flag == "--from" && r.incomplete:
		p.Incomplete = append(p.Incomplete, err.Error())
		return b, nil
	case errors.Is(err, sinks.ErrNotKept):
		return b, &replay.NotKeptError{Missing: []string{err.Error()}}
	}
	b.Cut = &cut
	return b, err
}

// checkpointBound finds a checkpoint in the store.
func (r *replaying) checkpointBound(ctx context.Context, b replay.Bound) (replay.Bound, error) {
	store, err := openPast(ctx, r.settings, r.cluster)
	if err != nil {
		return b, err
	}
	defer store.Close()
	p := &pastCheckpoints{store: store, now: time.Now()}
	c, err := p.find(ctx, b.Text)
	if err != nil {
		return b, err
	}
	cut := c.Cut()
	b.Clock, b.Time, b.Cut = "checkpoint", c.Time, &cut
	return b, nil
}

// versionBound finds the last batch of each slot whose positions are not behind a resourceVersion: what is in it happened before.
func (r *replaying) versionBound(ctx context.Context, resource string, b *replay.Bound) error {
	cut := sinks.Cut{Batches: map[int]uint64{}}
	known := false
	err := r.log.Controls(ctx, time.Time{}, func(c *change.Control) error {
		for _, p := range c.Positions {
			if change.ResourceOf(p.Stream).ID() != resource || p.ResourceVersion == "" {
				continue
			}
			if known = true; p.ResourceVersion.Compare(b.RV) <= 0 {
				cut.Batches[c.Slot], b.Time = c.Batch, time.UnixMilli(c.TimeMs).UTC()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(cut.Batches) == 0 && !r.incomplete {
		why := "the control records show no position of " + resource + " as old as that"
		if !known {
			why = "the control records show no position of " + resource
		}
		return &replay.NotKeptError{Missing: []string{"resourceVersion " + string(b.RV) + ": " + why}}
	}
	b.Cut, b.Whole = &cut, true
	return nil
}

func (r *replaying) printPlan(p *replay.Plan) error {
	return r.format.print(r.out, p, func(t io.Writer) {
		plain.Fprintf(t, "REPLAY\t%s\n", p.ID)
		plain.Fprintf(t, "LOG\t%s, cluster %s\n", p.Log, p.Cluster)
		plain.Fprintf(t, "FROM\t%s\n", describeBound(p.From))
		plain.Fprintf(t, "TO\t%s\n", describeBound(p.To))
		plain.Fprintf(t, "TARGET\t%s\n\n", r.target.where())
		plain.Fprintf(t, "TOPIC\tTO\tRECORDS\tFIRST LOGGED\tLAST LOGGED\n")
		for _, topic := range p.Topics {
			plain.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", topic.Topic, topic.To, topic.Records, stamp(topic.First), stamp(topic.Last))
		}
		plain.Fprintf(t, "total\t\t%d\n", p.Records())
		for _, missing := range p.Incomplete {
			plain.Fprintf(r.notes, "note: incomplete: %s\n", missing)
		}
		for _, topic := range p.Topics {
			if topic.Stubs > 0 {
				plain.Fprintf(r.notes, "note: %d records of %s are stubs: the whole records stay in the dead-letter topic of the live log\n",
					topic.Stubs, topic.Topic)
			}
		}
	})
}

func describeBound(b replay.Bound) string {
	switch {
	case b.RV != "":
		return fmt.Sprintf("resourceVersion %s, by when the change happened", b.RV)
	case b.Clock == "logged":
		return stamp(b.Time) + ", by when the log got the change"
	case b.Clock == "checkpoint":
		return fmt.Sprintf("checkpoint %s, stored at %s", b.Text, stamp(b.Time))
	}
	return b.Clock
}

// replayed is the outcome of a replay.
type replayed struct {
	*replay.Plan
	Written int64   `json:"written"`
	Seconds float64 `json:"seconds"`
}

func (r *replaying) printEnd(run *replay.Run, written int64, took time.Duration) error {
	if r.offsetsFile != "" {
		if err := os.WriteFile(r.offsetsFile, []byte(replay.CSV(run.Plan.Next)), 0o600); err != nil {
			return err
		}
	}
	result := replayed{run.Plan, run.Written(), took.Seconds()}
	if r.format.format != "table" {
		return r.format.print(r.out, result, nil)
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
	plain.Fprintf(r.out, "\na consumer goes on in the live topics at (topic,partition,offset)\n%s", plain.Own(plain.Lines(replay.CSV(run.Plan.Next))))
	for _, topic := range run.Plan.Shared {
		plain.Fprintf(r.notes, "note: several slots write to %s: a consumer that goes on there skips the records up to the replay's end, by "+
			"their headers slot and batch: %v\n", topic, run.Plan.To.Cut.Batches)
	}
	return nil
}
