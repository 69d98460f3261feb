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
	"kubecdc/sinks"
)

// committer makes batches durable, one after another, in three steps: prepare the batch (number, before-images), write it to
// the sink (all or nothing), and move the checkpoint.
//
// Invariants (docs/design.md):
//  1. The checkpoint moves only after the sink has the batch, and in one transaction.
//  2. A batch that depends on reads of the checkpoint is written only if the checkpoint still has all that it has acknowledged.
//  3. After any error the outcome is unknown: the session ends, and the next one reads it from the sink.
type committer struct {
	*watchedParts
	numbering
	reads        *readTracker
	log          sinks.Log
	beforeImages *beforeImages      // nil: before-images are off
	touched      touched            // by the batch
	filter       *filter            // nil: all changes are written
	provenance   *provenance.Reader // nil: the sink does not write it

	watermark  time.Duration                 // interval between the watermark records of a stream
	watermarks map[change.StreamID]time.Time // time of the last watermark record by stream
}

func (c *committer) commit(ctx context.Context, b *batching.Batch) error {
	failpoint.Hit(failpoint.Collected)
	done := live.Committed{Collect: b.Waited()}
	began := time.Now()
	batch := c.prepare(b)
	name := fmt.Sprintf("batch %d of slot %d", batch.Seq, c.slot)
	c.touched.read(batch)
	if c.beforeImages != nil {
		asked := time.Now()
		err := c.watchdog.Do(dependency.Checkpoint, "the before-images of "+name, func() error {
			return c.beforeImages.attach(ctx, batch, &c.touched)
		})
		if err != nil {
			return err
		}
		done.BeforeImages = time.Since(asked)
	}
	done.Ignored = c.touched.leaveOut(batch, c.filter, c.beforeImages != nil)
	if c.provenance != nil {
		c.provenance.ReadAll(batch)
	}
	if c.reads.needsCheck() {
		err := c.watchdog.Do(dependency.Checkpoint, "the check before "+name, func() error {
			seq, _ := c.reads.checkpoints.committed()
			return c.Store.Check(ctx, c.slot, c.epoch, seq)
		})
		if err != nil {
			return err
		}
	}
	if _, err := c.reads.checkpoints.committed(); err != nil {
		return err // the checkpoint could not follow
	}
	failpoint.Hit(failpoint.Prepared)
	start := time.Now()
	done.Prepare = start.Sub(began) - done.BeforeImages
	var offsets change.Offsets
	err := c.watchdog.Do(dependency.Sink, name, func() error {
		return c.sinkReach.Call(c.slot, func() (err error) {
			offsets, err = c.log.Write(ctx, batch)
			return err
		})
	})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.Written)
	c.seq = batch.Seq
	done.Batch, done.Sink = batch, time.Since(start)
	c.State.Committed(done)
	effect := c.touched.effect(batch, offsets)
	if c.beforeImages != nil {
		c.beforeImages.written(effect.objects)
	}
	return c.reads.checkpoints.add(ctx, effect)
}

// prepare numbers the batch, and fills in its positions and control records.
func (c *committer) prepare(b *batching.Batch) *change.Batch {
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
	c.next(batch)
	return batch
}

// numbering numbers a slot's batches.
type numbering struct {
	slot    int
	epoch   int64
	seq     uint64 // of the last batch
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
