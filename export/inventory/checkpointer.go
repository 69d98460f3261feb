package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/export/batching"
	"kubecdc/internal/dependency"
	"kubecdc/internal/failpoint"
)

// checkpointer makes the checkpoint follow the log at its own pace. It gathers the effects of batches on the checkpoint, and
// commits them in one transaction, once per interval, or sooner if much is pending. After a crash the next owner reads back from
// the log what was not committed. So only a sink whose log can be read back may have an interval.
//
// Readers of the checkpoint see the present state. Inventory flushes first, and bodies asks here for a body before it asks the
// store.
type checkpointer struct {
	Settings
	Parts
	epoch int64

	committing chan struct{} // has an element during a call to the store, so there is one commit at a time
	added      chan struct{} // has an element after a batch was added

	mu       sync.Mutex
	pending  *pending  // nil: none
	inFlight *pending  // being committed; may be nil
	spare    *pending  // committed, and empty again; may be nil
	seq      uint64    // the last batch in the store
	last     time.Time // end of the last commit
	err      error     // error of the failed commit
}

func newCheckpointer(settings Settings, parts Parts, epoch int64, seq uint64) *checkpointer {
	return &checkpointer{Settings: settings, Parts: parts, epoch: epoch, seq: seq, committing: make(chan struct{}, 1),
		added: make(chan struct{}, 1)}
}

// add adds a batch that the sink has. If the pending bytes are at their limit, it waits for the commit in flight. So a slow store
// slows the slot down, and memory does not grow. At twice the limit it commits the pending objects itself, since run may not have
// begun (while a spool is forwarded).
func (c *checkpointer) add(ctx context.Context, e effect) error {
	c.mu.Lock()
	if c.pending == nil {
		if c.pending, c.spare = c.spare, nil; c.pending == nil {
			c.pending = newPending()
		}
	}
	c.pending.add(e)
	bytes, err := c.pending.bytes, c.err
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case c.Interval == 0 || bytes >= 2*c.CommitBytes:
		return c.flush(ctx)
	}
	select {
	case c.added <- struct{}{}:
	default:
	}
	if bytes >= c.CommitBytes {
		return c.wait(ctx)
	}
	return nil
}

// wait waits for the commit that is in flight.
func (c *checkpointer) wait(ctx context.Context) error {
	select {
	case c.committing <- struct{}{}:
		<-c.committing
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run commits what is pending, until the context ends or a commit fails. It calls fail with that error.
func (c *checkpointer) run(ctx context.Context, fail context.CancelCauseFunc) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		switch wait, isPending := c.due(); {
		case !isPending:
			timer.Stop()
		case wait > 0:
			timer.Reset(wait)
		default:
			if err := c.flush(ctx); err != nil {
				fail(err)
				return
			}
			continue
		}
		select {
		case <-c.added:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// due reports whether something is pending, and how long it may still wait. After a pause it need not wait, so the checkpoint of
// a quiet cluster is not behind its log.
func (c *checkpointer) due() (wait time.Duration, isPending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pending == nil:
		return 0, false
	case c.pending.bytes >= c.CommitBytes:
		return 0, true
	}
	return time.Until(c.last.Add(c.Interval)), true
}

// flush commits what is pending, and returns when the store has it.
func (c *checkpointer) flush(ctx context.Context) error {
	select {
	case c.committing <- struct{}{}:
		defer func() { <-c.committing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	p, err := c.pending, c.err
	if err == nil {
		c.pending, c.inFlight = nil, p
	}
	c.mu.Unlock()
	if err != nil || p == nil {
		return err
	}
	started := time.Now()
	err = c.commit(ctx, p)
	c.mu.Lock()
	c.last = time.Now()
	if c.err = err; err == nil {
		c.inFlight, c.seq = nil, p.last
		p.reset()
		c.spare = p
	}
	c.mu.Unlock()
	if err == nil {
		c.State.Checkpointed(time.Since(started))
	}
	return err
}

func (c *checkpointer) commit(ctx context.Context, p *pending) error {
	what := fmt.Sprintf("the checkpoint of batch %d of slot %d", p.last, c.Slot)
	err := c.Watchdog.Do(dependency.Checkpoint, what, func() error { return c.Store.Commit(ctx, p.commit(c.Slot, c.epoch)) })
	if err != nil {
		return dependency.TagCheckpoint(errors.Join(context.Cause(ctx), err))
	}
	failpoint.Hit(failpoint.Committed)
	return nil
}

// committed returns the last batch in the store, and the error of the failed commit.
func (c *checkpointer) committed() (seq uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seq, c.err
}

// behind returns what the store may not have yet, the newest first. The caller holds the lock. It is called for each changed
// object, and allocates nothing.
func (c *checkpointer) behind() iter.Seq[*pending] {
	return func(yield func(*pending) bool) {
		for _, p := range [...]*pending{c.pending, c.inFlight} {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}

// object returns the last state of an object that the store may not have yet. If its Body keeps a base, the store has that base.
func (c *checkpointer) object(id batching.ObjectID) (o objectState, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.behind() {
		i, found := p.index[id]
		switch {
		case found && !ok:
			o, ok = p.objects[i], true
		case found && o.Body.KeepsBase():
			o.Body.Base = p.objects[i].Body.Base
		}
	}
	return o, ok
}

// concerns reports whether the store may lack something of a stream.
func (c *checkpointer) concerns(stream change.StreamID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.behind() {
		if p.concerns(stream) {
			return true
		}
	}
	return false
}

// objects returns for how many objects the store may not have the last state yet.
func (c *checkpointer) objects() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.behind() {
		n += int64(len(p.objects))
	}
	return n
}
