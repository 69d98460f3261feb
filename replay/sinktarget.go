package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// SinkTarget writes through a sink, into a log that has only replays of the cluster. Each Write is one batch of slot 0, so
// changes and control record are atomic. One goroutine uses it.
type SinkTarget struct {
	Place string // for errors, without passwords
	// Connect creates the tables, and opens the log for writing and for reading.
	Connect func(ctx context.Context) (sinks.Sink, sinks.ReadCloser, error)

	sink   sinks.Sink
	reader sinks.ReadCloser
	log    sinks.Log
	seq    uint64
	epoch  int64
	kinds  kinds

	controls  []change.Control  // further control records of the next batch
	positions []change.Position // positions of the next batch
}

// Open fences an earlier process, and visits the control records of all replays. It returns an error if a batch belongs to no
// replay, since then an exporter writes to this log.
func (t *SinkTarget) Open(ctx context.Context, _ string, visit func(*change.Control) error) (err error) {
	t.kinds = kinds{}
	if t.sink, t.reader, err = t.Connect(ctx); err != nil {
		return err
	}
	if err := t.records(ctx, func(*change.Control) error { return nil }); err != nil {
		return err
	}
	for t.epoch = 1; ; {
		opened, err := t.sink.Open(ctx, 0, t.epoch, sinks.Durable{New: true})
		if newer, ok := errors.AsType[*sinks.NewerEpochError](err); ok {
			t.epoch = newer.Epoch + 1
			continue
		}
		if err != nil {
			return err
		}
		t.log = opened.Log
		return t.records(ctx, visit)
	}
}

// records visits the control records of replays. Each is the last one of a batch.
func (t *SinkTarget) records(ctx context.Context, visit func(*change.Control) error) error {
	replayed := uint64(0)
	return t.reader.Controls(ctx, time.Time{}, nil, func(c *change.Control) error {
		switch {
		case strings.HasPrefix(string(c.Type), "replay-") && c.Slot == 0:
			replayed, t.seq = c.Batch, c.Batch
			return visit(c)
		case c.Type == change.ControlBatch && (c.Slot != 0 || c.Batch != replayed):
			return fmt.Errorf("%s has the log of an exporter of cluster %q: replay to a place of its own", t.Place, c.Cluster)
		}
		return nil
	})
}

// Write writes one batch.
func (t *SinkTarget) Write(ctx context.Context, changes []sinks.Logged, c *change.Control) error {
	t.seq++
	b := change.Batch{Slot: 0, Epoch: t.epoch, Seq: t.seq, Controls: append(t.controls, *c), Positions: t.positions}
	t.controls, t.positions = nil, nil
	for i := range changes {
		next := changes[i].Change
		next.Stream = t.kinds.streamOf(&next)
		b.Changes = append(b.Changes, next)
	}
	_, err := t.log.Write(ctx, &b)
	return err
}

// Close ends the log, and closes what Connect has opened.
func (t *SinkTarget) Close() (err error) {
	if t.log != nil {
		err = t.log.Close()
	}
	if t.sink != nil {
		err = errors.Join(err, t.sink.Close())
	}
	if t.reader != nil {
		err = errors.Join(err, t.reader.Close())
	}
	return err
}
