// Package commit makes a slot's batches durable, one after another: it numbers them, gives them before-images, and leaves out
// ignored updates. It knows what a log must be able to do for that (memory.go), and neither sessions nor streams.
package commit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/invariant"
)

// Committer makes batches durable, one after another, in three steps. It prepares a batch (number, before-images), writes it (all
// or nothing), and remembers the state after it. The batches come from the queue, or from a spool.
//
// If isAhead, a batch is prepared while the previous batch is being written. The states of the previous batch are its
// before-images. Once the previous batch is durable, the write of the new batch begins, and then the previous batch is
// remembered. If the sink has written stubs, the previous batch is remembered first, and the new one is prepared again.
//
// Invariants (docs/design.md):
//  1. The remembered state changes with the batch, in one transaction, or only after the sink has the batch.
//  2. A batch that depends on reads of the remembered state is written only if that state still has all that it has acknowledged.
//  3. After any error the outcome is unknown: the session ends, and the next one reads it from the sink.
type Committer struct {
	Numbering
	watchdog   *dependency.Watchdog
	memory     *Opened
	isAhead    bool // prepare a batch while the one before is being written: the stored state is behind the log anyway
	images     bool // write before-images
	provenance bool // write who and when
	works      [2]work
	Filter     *Filter        // nil if all changes are written
	Offsets    change.Offsets // to be checkpointed with the next batch, and with the offsets of its records
	invariants *invariants    // in builds that verify them
	Written    func(live.Committed)

	watermark  time.Duration                 // interval between the watermark records of a stream
	watermarks map[change.StreamID]time.Time // time of the last watermark record by stream
}

// work is a batch from the first step to the last.
type work struct {
	batching.Prepared
	queued     *batching.Batch
	batch      change.Batch
	provenance provenance.Reader
	report     live.Committed
	ended      chan struct{} // is closed when the write has ended
	err        error         // why it has failed
}

// New returns a committer that writes all changes.
func New(slot *plan.Slot, memory *Opened, epoch int64) *Committer {
	config := &slot.Config
	return &Committer{Numbering: Numbering{slot.Number, epoch, memory.Seq(), config.Cluster}, watchdog: slot.Parts.Watchdog,
		memory: memory,
		images: config.Before, provenance: !config.TellsWhenRead, invariants: newInvariants(),
		Written:   slot.Parts.State.Committed,
		isAhead:   config.CheckpointInterval > 0 && memory.Following != nil,
		watermark: config.Limits.Watermark, watermarks: map[change.StreamID]time.Time{}}
}

// CommitAll commits the queue's batches until stopped is closed and the queue is empty.
func (c *Committer) CommitAll(ctx context.Context, q *batching.Queue, stopped <-chan struct{}) error {
	var before *work
	for {
		next, err := c.collect(ctx, q, stopped, before)
		switch {
		case before != nil:
			if err = cmp.Or(c.advance(ctx, before, next), err); err == nil {
				q.Done(before.queued)
			}
		case next != nil:
			c.write(ctx, next)
		default:
			return err
		}
		if err != nil {
			return err
		}
		before = next
	}
}

// collect prepares the queue's next batch. It returns nil if there is none, or if it could grow until the one before was written.
func (c *Committer) collect(ctx context.Context, q *batching.Queue, stopped <-chan struct{}, before *work) (*work, error) {
	var written chan struct{}
	if before != nil {
		written = before.ended
		if !c.isAhead {
			return nil, nil
		}
	}
	b := q.NextDuring(ctx, stopped, written)
	if b == nil {
		return nil, nil
	}
	failpoint.Hit(failpoint.Collected)
	return c.begin(ctx, b, before)
}

// advance waits until a batch is written, remembers it, and begins to write the next one, unless that is nil.
func (c *Committer) advance(ctx context.Context, before, next *work) error {
	if <-before.ended; before.err != nil {
		return before.err
	}
	if next == nil {
		return c.remember(ctx, before)
	}
	if c.images && before.HasStubs() {
		err := c.remember(ctx, before)
		if err == nil {
			err = c.prepare(ctx, next, nil)
		}
		if err == nil {
			c.write(ctx, next)
		}
		return err
	}
	c.write(ctx, next)
	failpoint.Hit(failpoint.BegunAhead)
	err := c.remember(ctx, before)
	if err != nil {
		<-next.ended
	}
	return err
}

// Commit commits one batch.
func (c *Committer) Commit(ctx context.Context, b *batching.Batch) error {
	w, err := c.begin(ctx, b, nil)
	if err != nil {
		return err
	}
	c.write(ctx, w)
	return c.advance(ctx, w, nil)
}

// begin numbers and prepares a batch, which follows one that is being written, or nil. It returns nil after an error.
func (c *Committer) begin(ctx context.Context, b *batching.Batch, before *work) (*work, error) {
	w := &c.works[0]
	if w == before {
		w = &c.works[1]
	}
	w.queued, w.batch, w.report = b, b.Batch, live.Committed{Collect: b.Waited()}
	c.complete(w)
	c.Next(&w.batch)
	if err := c.prepare(ctx, w, before); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.Prepared)
	if before != nil {
		failpoint.Hit(failpoint.PreparedAhead)
	}
	return w, nil
}

// prepare sets before-images, removes ignored updates, and checks that the log still has the state that the batch depends on.
func (c *Committer) prepare(ctx context.Context, w, before *work) (err error) {
	began, p, done := time.Now(), &w.Prepared, &w.report
	p.Batch, p.Offsets, w.batch.Changes = &w.batch, c.Offsets, w.queued.Changes
	p.Find()
	if c.images {
		if before != nil {
			p.Follow(&before.Prepared)
		}
		asked := time.Now()
		what := fmt.Sprintf("the before-images of batch %d of slot %d", p.Seq, c.Slot)
		if err = c.watchdog.Do(dependency.Checkpoint, what, func() error { return c.memory.Before(ctx, p) }); err != nil {
			return err
		}
		done.BeforeImages = time.Since(asked)
	}
	done.Ignored = p.LeaveOut(c.Filter.leavesOut, c.images)
	if c.provenance {
		w.provenance.ReadAll(p.Batch)
	}
	if c.memory.Guard != nil {
		err = c.memory.Guard.Check(ctx, p)
	}
	done.Prepare = time.Since(began) - done.BeforeImages
	return err
}

// write begins to write a batch.
func (c *Committer) write(ctx context.Context, w *work) {
	if invariant.Verified {
		c.invariants.verify(&w.Prepared, c.Seq)
	}
	c.Seq, w.ended = w.Seq, make(chan struct{})
	go func() {
		defer close(w.ended)
		started := time.Now()
		w.err = c.memory.Write(ctx, &w.Prepared)
		w.report.Sink = time.Since(started)
	}()
}

// remember remembers a durable batch, whose memory then may be used again.
func (c *Committer) remember(ctx context.Context, w *work) error {
	w.report.Batch = w.Batch
	c.Written(w.report)
	if c.memory.Following != nil {
		if err := c.memory.Following.Remember(ctx, &w.Prepared); err != nil {
			return err
		}
	}
	for _, durable := range w.queued.Durable {
		if err := durable(ctx); err != nil {
			return err
		}
	}
	w.Release()
	w.batch = change.Batch{}
	return nil
}

// complete fills in a batch's positions and control records.
func (c *Committer) complete(w *work) {
	b, batch := w.queued, &w.batch
	c.Filter.tell(batch)
	for _, id := range slices.Sorted(maps.Keys(b.Late)) {
		late := b.Late[id]
		batch.Controls = append(batch.Controls, change.BehindControl(id, b.Newest[id].ResourceVersion, late.Since, late.Read))
	}
	for _, p := range b.Newest {
		batch.Positions = append(batch.Positions, p)
		switch {
		case p.Ended != "" || p.ResourceVersion == "":
			delete(c.watermarks, p.Stream)
		case p.Time.Sub(c.watermarks[p.Stream]) >= c.watermark/2:
			c.watermarks[p.Stream] = p.Time
			batch.Controls = append(batch.Controls, change.WatermarkControl(p))
		}
	}
}

// Numbering numbers a slot's batches.
type Numbering struct {
	Slot    int
	Epoch   int64
	Seq     uint64 // the number of the last batch
	Cluster string
}

// Next makes a batch the one after the last, with its control records.
func (n *Numbering) Next(batch *change.Batch) {
	batch.Slot, batch.Epoch, batch.Seq = n.Slot, n.Epoch, n.Seq+1
	now := time.Now().UnixMilli()
	for i := range batch.Controls {
		control := &batch.Controls[i]
		control.Cluster, control.Slot, control.Epoch, control.Batch = n.Cluster, n.Slot, n.Epoch, batch.Seq
		if control.TimeMs == 0 {
			control.TimeMs = now
		}
	}
}
