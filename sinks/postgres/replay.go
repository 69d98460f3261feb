package postgres

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Replay writes changes of another log into tables that have none of the cluster. A Write is one batch of slot 0, so changes and
// control record are one statement. It is used by one goroutine.
type Replay struct {
	config Config
	sink   *Sink
	log    sinks.Log
	seq    uint64
	epoch  int64
}

// NewReplay makes a writer for the tables of a database. It does not connect; Open does.
func NewReplay(c Config) *Replay { return &Replay{config: c, epoch: 1} }

// Open makes the tables, fences an earlier process, and visits the control records of all replays. A batch that no replay has
// written is an error: an exporter writes to these tables.
func (r *Replay) Open(ctx context.Context, _ string, visit func(*change.Control) error) (err error) {
	if r.sink, err = Open(ctx, r.config); err != nil {
		return err
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	for {
		opened, err := r.sink.Open(ctx, 0, r.epoch, sinks.Durable{New: true})
		if newer, ok := errors.AsType[*sinks.NewerEpochError](err); ok {
			r.epoch = newer.Epoch + 1
			continue
		}
		if err != nil {
			return err
		}
		r.log = opened.Log
		return r.controls(ctx, visit)
	}
}

func (r *Replay) alone(ctx context.Context) error {
	const look = `select exists (select from kubecdc_log.batches b where cluster = $1 and not exists (
		select from kubecdc_log.control c where c.cluster = b.cluster and c.slot = b.slot and c.epoch = b.epoch and c.batch = b.seq
			and c.type like 'replay-%'))`
	var other bool
	if err := r.sink.db.QueryRow(ctx, look, r.sink.cluster).Scan(&other); err != nil {
		return r.sink.db.Fail("see whose log it is", err)
	}
	if other {
		return fmt.Errorf("%s has the log of an exporter of cluster %q: replay to a database of its own", r.sink.db.Where(), r.sink.cluster)
	}
	return nil
}

func (r *Replay) controls(ctx context.Context, visit func(*change.Control) error) error {
	const look = `select batch, record from kubecdc_log.control where cluster = $1 and slot = 0 and type like 'replay-%'
		order by epoch, batch, n`
	var c *change.Control
	return r.sink.db.Each(ctx, "read what replays have left", look, []any{r.sink.cluster}, []any{&r.seq, &c}, func() error {
		next := c
		c = nil
		return visit(next)
	})
}

// Write writes one batch. The tables have kind and version of a resource, which are in the object itself.
func (r *Replay) Write(ctx context.Context, changes []sinks.Logged, c *change.Control) error {
	r.seq++
	b := change.Batch{Slot: 0, Epoch: r.epoch, Seq: r.seq, Controls: []change.Control{*c}}
	for i := range changes {
		next := changes[i].Change
		image := next.After
		if image == nil {
			image = next.Before
		}
		next.Stream = next.Stream.WithKind(image)
		b.Changes = append(b.Changes, next)
	}
	_, err := r.log.Write(ctx, &b)
	return err
}

// Close ends the log and closes the connections.
func (r *Replay) Close() error {
	if r.log != nil {
		_ = r.log.Close()
	}
	if r.sink != nil {
		return r.sink.Close()
	}
	return nil
}
