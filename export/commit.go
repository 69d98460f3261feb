package export

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/invariant"
)

// committer makes batches durable, one after another, in two steps. It prepares the batch (number, before-images), and writes it (all
// or nothing), together with the state after it. The batches come from the queue, or from a spool (forward.go).
//
// Invariants (docs/design.md):
//  1. The remembered state changes with the batch, in one transaction, or only after the sink has the batch.
//  2. A batch that depends on reads of the remembered state is written only if that state still has all that it has acknowledged.
//  3. After any error the outcome is unknown: the session ends, and the next one reads it from the sink.
type committer struct {
	*watchedParts
	numbering
	memory     Memory
	images     bool // write before-images
	prepared   batching.Prepared
	filter     *filter            // nil if all changes are written
	provenance *provenance.Reader // nil if the sink does not write it
	invariants *invariants        // in builds that verify them
	written    func(live.Committed)

	watermark  time.Duration                 // interval between the watermark records of a stream
	watermarks map[change.StreamID]time.Time // time of the last watermark record by stream
}

// newCommitter returns a committer that writes all changes.
func (s *slot) newCommitter(memory Memory, epoch int64) *committer {
	c := &committer{watchedParts: s.parts, numbering: numbering{s.number, epoch, memory.Seq(), s.config.Cluster}, memory: memory,
		images: s.config.Before, invariants: newInvariants(), written: s.parts.State.Committed, watermark: s.config.Limits.Watermark,
		watermarks: map[change.StreamID]time.Time{}}
	if !s.config.TellsWhenRead {
		c.provenance = new(provenance.Reader)
	}
	return c
}

// commit commits a batch of the queue.
func (c *committer) commit(ctx context.Context, b *batching.Batch) error {
	failpoint.Hit(failpoint.Collected)
	waited := b.Waited()
	c.complete(b)
	return c.write(ctx, &b.Batch, live.Committed{Collect: waited})
}

// write numbers a batch that has its positions and control records, prepares and writes it.
func (c *committer) write(ctx context.Context, b *change.Batch, done live.Committed) error {
	began, p := time.Now(), &c.prepared
	c.next(b)
	p.Batch, p.Offsets = b, nil
	if err := c.prepare(ctx, &done); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Prepared)
	start := time.Now()
	done.Prepare = start.Sub(began) - done.BeforeImages
	p.Written = func() {
		c.seq = p.Seq
		done.Batch, done.Sink = p.Batch, time.Since(start)
		c.written(done)
	}
	return c.memory.Write(ctx, p)
}

// prepare sets before-images, removes ignored updates, and checks that the log still has the state that the batch depends on.
func (c *committer) prepare(ctx context.Context, done *live.Committed) error {
	p := &c.prepared
	p.Find()
	if c.images {
		asked := time.Now()
		what := fmt.Sprintf("the before-images of batch %d of slot %d", p.Seq, c.slot)
		err := c.watchdog.Do(dependency.Checkpoint, what, func() error { return c.memory.Before(ctx, p) })
		if err != nil {
			return err
		}
		done.BeforeImages = time.Since(asked)
	}
	done.Ignored = p.LeaveOut(c.filter.leavesOut, c.images)
	if c.provenance != nil {
		c.provenance.ReadAll(p.Batch)
	}
	if err := c.memory.Check(ctx, p); err != nil {
		return err
	}
	if invariant.Verified {
		c.invariants.verify(p, c.seq)
	}
	return nil
}

// complete fills in a batch's positions and control records.
func (c *committer) complete(b *batching.Batch) {
	batch := &b.Batch
	for _, id := range slices.Sorted(maps.Keys(b.Late)) {
		late := b.Late[id]
		batch.Controls = append(batch.Controls, change.BehindControl(id, b.Newest[id].ResourceVersion, late.Since, late.Read))
	}
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
		batch.Controls = append(batch.Controls, change.WatermarkControl(p))
	}
}

// numbering numbers a slot's batches.
type numbering struct {
	slot    int
	epoch   int64
	seq     uint64 // the number of the last batch
	cluster string
}

// next makes a batch the one after the last, with its control records.
func (n *numbering) next(batch *change.Batch) {
	batch.Slot, batch.Epoch, batch.Seq = n.slot, n.epoch, n.seq+1
	now := time.Now().UnixMilli()
	for i := range batch.Controls {
		control := &batch.Controls[i]
		control.Cluster, control.Slot, control.Epoch, control.Batch = n.cluster, n.slot, n.epoch, batch.Seq
		if control.TimeMs == 0 {
			control.TimeMs = now
		}
	}
}
