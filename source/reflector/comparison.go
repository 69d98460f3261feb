package reflector

import (
	"context"
	"time"

	"kubecdc/internal/wait"
)

// comparison compares a collection with the known objects during a watch that is open and empty, shortly before the watch's
// timeout. Nothing happened up to the list's version L if the list has what the log has and the watch then ends empty. The
// position moves to L. L is a few seconds old when the next watch begins there, so it does not matter how often the server
// compacts. A list between two watches (empty_watch.go) is confirmed only by a third watch. That watch begins at a position that
// is one or two watches old.
//
// It is made for Events, which never have bookmarks, and for resources whose position was compacted after an empty watch.
//
// The comparison and the watch use the stream in turns (Reflector.turn): an event cancels a comparison that is running.
type comparison struct {
	watch  *watching
	begins time.Time // when it begins
	cancel context.CancelFunc
	done   chan struct{}

	lastEvent time.Time // guarded by the stream's turn
}

// comparisonLead is how long before the watch's timeout the list begins. The list takes part of that time. In the rest the watch
// must deliver what happened before the list. After an event in that time no list is made: the position is new.
const comparisonLead = 5 * time.Second

// scheduleComparison schedules a comparison for a watch with this timeout. It returns nil if none is needed.
func (w *watching) scheduleComparison(ctx context.Context, timeout time.Duration) *comparison {
	x := &w.empty
	if !leased(w.stream.Resource) && !w.compacted || w.bookmarks || w.catchUp != nil || x.differs || x.resting() {
		return nil
	}
	lead := min(comparisonLead, timeout/2)
	c := &comparison{watch: w, begins: time.Now().Add(timeout - lead), done: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.done)
		if wait.For(ctx, time.Until(c.begins)) != nil || w.take(ctx) != nil {
			return
		}
		defer w.release()
		if ctx.Err() == nil && !w.bookmarks && time.Since(c.lastEvent) >= lead {
			// It must end while the watch is surely open: what came and went between the watch's end and the list would be lost.
			ctx, cancel := context.WithDeadline(ctx, c.begins.Add(lead/2))
			defer cancel()
			c.compare(ctx)
		}
	}()
	return c
}

// interrupt cancels the comparison if it has begun, since there is an event.
func (c *comparison) interrupt() {
	if c != nil && !time.Now().Before(c.begins) {
		c.cancel()
	}
}

// stop cancels the comparison and waits until it has ended, for which it needs the stream's turn.
func (c *comparison) stop() {
	if c == nil {
		return
	}
	c.cancel()
	c.watch.release()
	<-c.done
	c.watch.turn <- struct{}{}
}

func (c *comparison) compare(ctx context.Context) {
	w := c.watch
	before := w.empty.unchanged
	if err := w.compare(ctx); err != nil {
		w.log.Debug("a quiet collection can't be compared with the log now; it is tried again after the watch", "error", err)
	}
	w.empty.compared = w.empty.differs || w.empty.unchanged != before
}
