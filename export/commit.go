package export

import (
	"context"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
)

// committer makes batches durable, one after another: prepare (before-images, number), apply (the sink has it, all
// or nothing), publish (the checkpoint follows).
//
// Invariants (docs/design.md):
//  1. The checkpoint moves only after the sink has the batch, and all of it at once.
//  2. What follows from what was read from the checkpoint is written only while that has all that was written before.
//  3. After any error the outcome is unknown: the session ends, and the next one asks the sink.
type committer struct {
	slot    int
	epoch   int64
	seq     uint64 // of the last batch
	cluster string
	store   checkpoint.State
	reads   *reads
	log     sinks.Log
	befores *befores // nil: before-images are off

	watermark  time.Duration                 // at least so long between two watermark records of a stream
	watermarks map[change.StreamID]time.Time // when each stream had its last one
	observer   Observer
	watchdog   *dependency.Watchdog
	reach      *ownership.Reachability
}

func (c *committer) commit(ctx context.Context, b *batching.Batch) error {
	failpoint.Hit(failpoint.Collected)
	batch := c.prepare(b)
	if c.befores != nil {
		if err := c.ask("the objects before", batch, func() error { return c.befores.attach(ctx, batch) }); err != nil {
			return dependency.Tag(dependency.Checkpoint, err)
		}
	}
	if c.reads.unchecked() {
		err := c.ask("the check before", batch, func() error { return c.store.Check(ctx, c.slot, c.epoch, c.seq) })
		if err != nil {
			return dependency.Tag(dependency.Checkpoint, err)
		}
	}
	failpoint.Hit(failpoint.Prepared)
	start := time.Now()
	offsets, err := c.write(ctx, batch)
	if err != nil {
		return dependency.Tag(dependency.Sink, err)
	}
	failpoint.Hit(failpoint.Written)
	written := time.Now()
	follow := func() error { return c.store.Commit(ctx, commitOf(batch, c.epoch, offsets, c.befores != nil)) }
	if err := c.ask("the checkpoint of", batch, follow); err != nil {
		return dependency.Tag(dependency.Checkpoint, fmt.Errorf("checkpoint: %w", err))
	}
	failpoint.Hit(failpoint.Committed)
	c.seq = batch.Seq
	if c.befores != nil {
		c.befores.committed(batch)
	}
	c.observer.Committed(Committed{Batch: batch, Bytes: int(b.Bytes), Sink: written.Sub(start), Checkpoint: time.Since(written)})
	return nil
}

// write gives the batch to the sink.
func (c *committer) write(ctx context.Context, batch *change.Batch) (offsets change.Offsets, err error) {
	wait := c.watchdog.Begin(dependency.Sink, fmt.Sprintf("batch %d of slot %d", batch.Seq, c.slot))
	defer wait.End()
	c.reach.Call(c.slot, func() bool {
		offsets, err = c.log.Write(ctx, batch)
		return err == nil
	})
	return offsets, err
}

// ask calls the checkpoint.
func (c *committer) ask(what string, batch *change.Batch, do func() error) error {
	wait := c.watchdog.Begin(dependency.Checkpoint, fmt.Sprintf("%s batch %d of slot %d", what, batch.Seq, c.slot))
	defer wait.End()
	return do()
}

// prepare numbers the batch and makes its positions and control records.
func (c *committer) prepare(b *batching.Batch) *change.Batch {
	batch := &b.Batch
	batch.Slot, batch.Epoch, batch.Seq = c.slot, c.epoch, c.seq+1
	for _, p := range b.Newest {
		batch.Positions = append(batch.Positions, p)
		if p.Ended != "" || p.ResourceVersion == "" {
			delete(c.watermarks, p.Stream)
			continue
		}
		if p.Time.Sub(c.watermarks[p.Stream]) < c.watermark/2 {
			continue
		}
		c.watermarks[p.Stream] = p.Time
		batch.Controls = append(batch.Controls, change.Control{Type: change.ControlWatermark, Stream: p.Stream,
			ResourceVersion: p.ResourceVersion, TimeMs: p.Time.UnixMilli()})
	}
	now := time.Now().UnixMilli()
	for i := range batch.Controls {
		control := &batch.Controls[i]
		control.Cluster, control.Slot, control.Epoch, control.Batch = c.cluster, c.slot, c.epoch, batch.Seq
		if control.TimeMs == 0 {
			control.TimeMs = now
		}
	}
	return batch
}

// commitOf is what a batch does to the checkpoint: the last state of every key that it touches. It reads the batch from
// its end, so that the first change of a key that it meets is the last.
func commitOf(batch *change.Batch, epoch int64, offsets change.Offsets, bodies bool) checkpoint.Commit {
	type place struct {
		stream change.StreamID
		key    string
	}
	seen := make(map[place]struct{}, len(batch.Changes))
	streams := map[change.StreamID]*checkpoint.StreamCommit{}
	for i := len(batch.Changes) - 1; i >= 0; i-- {
		c := &batch.Changes[i]
		at := place{c.Stream.ID(), c.Key()}
		known := len(seen)
		if seen[at] = struct{}{}; len(seen) == known {
			continue
		}
		s := streams[at.stream]
		if s == nil {
			s = &checkpoint.StreamCommit{Stream: at.stream}
			streams[at.stream] = s
		}
		addObject(s, at.key, c, bodies)
	}
	commit := checkpoint.Commit{Slot: batch.Slot, Epoch: epoch, Seq: batch.Seq, Positions: batch.Positions, Offsets: offsets}
	for _, s := range streams {
		commit.Streams = append(commit.Streams, *s)
	}
	return commit
}

func addObject(s *checkpoint.StreamCommit, key string, c *change.Change, bodies bool) {
	if c.Op == change.Delete {
		s.Deletes = append(s.Deletes, key)
		return
	}
	o := checkpoint.Object{Key: key, UID: c.UID, ResourceVersion: c.ResourceVersion}
	if bodies {
		o.Body = c.After
	}
	s.Upserts = append(s.Upserts, o)
}
