package reflector_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// ledger is a log and a checkpoint in memory: what was sent is durable at once, unless the test makes it fail.
type ledger struct {
	mu       sync.Mutex
	moved    chan struct{} // closed and made anew at every item
	changes  []change.Change
	controls []change.Control
	raws     []change.Malformed
	position change.ResourceVersion
	objects  map[string][2]string // key → uid, version
	bodies   map[string]string    // by key; "": none
	filled   int                  // changes of which only the body was stored
	failAt   int                  // Send number that fails; 0: none
	failed   bool                 // until the stream starts again
	sent     int

	stallAt  int // Send number that takes stallFor; 0: none
	stallFor time.Duration

	interruptAt int    // Send number after which interrupt is called; 0: none
	interrupt   func() // ends the step that sends
}

func newLedger() *ledger {
	return &ledger{moved: make(chan struct{}), objects: map[string][2]string{}, bodies: map[string]string{},
		interrupt: func() {}} // a stream that has just begun is not interrupted
}

type crash struct{ item int }

func (c crash) Error() string { return fmt.Sprintf("the test crashes the log at item %d", c.item) }

// restart lets a log that has failed take items again.
func (l *ledger) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = false
}

func (l *ledger) Send(ctx context.Context, item change.Item) error {
	l.mu.Lock()
	stalls := l.stallAt == l.sent+1
	l.mu.Unlock()
	if stalls {
		_ = wait.For(ctx, l.stallFor)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	defer func() {
		close(l.moved)
		l.moved = make(chan struct{})
	}()
	l.sent++
	if l.failed = l.failed || l.sent == l.failAt; l.failed {
		return crash{l.sent}
	}
	if c := item.Change; c != nil {
		if c.Logged {
			l.filled++
		} else {
			l.changes = append(l.changes, *c)
		}
		l.bodies[c.Key()] = string(c.After)
		if c.Op == change.Delete {
			delete(l.objects, c.Key())
			delete(l.bodies, c.Key())
		} else {
			l.objects[c.Key()] = [2]string{c.UID, string(c.ResourceVersion)}
		}
	}
	if item.Control != nil {
		l.controls = append(l.controls, *item.Control)
	}
	if item.Raw != nil {
		l.raws = append(l.raws, *item.Raw)
	}
	if item.Version != "" {
		l.position = item.Version
	}
	if item.Position != nil {
		l.position = item.Position.ResourceVersion
	}
	if l.sent == l.interruptAt {
		l.interrupt()
	}
	if item.Durable != nil {
		return item.Durable(ctx)
	}
	return nil
}

func (l *ledger) Bodies(_ context.Context, _ change.StreamID, keys []string, visit func(key string, body []byte) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if body := l.bodies[key]; body != "" {
			if err := visit(key, []byte(body)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *ledger) Position(context.Context, change.StreamID) (change.Position, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return change.Position{ResourceVersion: l.position}, l.position != "", nil
}

func (l *ledger) Objects(_ context.Context, _ change.StreamID, visit func(key, uid string, version change.ResourceVersion) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, o := range l.objects {
		if err := visit(key, o[0], change.ResourceVersion(o[1])); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the condition holds, which it checks again after every item.
func (l *ledger) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	for {
		l.mu.Lock()
		moved, ok := l.moved, condition()
		position, n := l.position, len(l.changes)
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-moved:
		case <-time.After(time.Second):
		case <-late.Done():
			t.Fatalf("waited in vain for %s: position %s, %d changes", what, position, n)
		}
	}
}

// awaitPosition waits until the stream is complete up to the revision.
func (l *ledger) awaitPosition(t testing.TB, revision string) {
	t.Helper()
	l.await(t, "position "+revision, func() bool { return l.position.Compare(change.ResourceVersion(revision)) >= 0 })
}

func (l *ledger) snapshot() (changes []change.Change, controls []change.Control) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(changes, l.changes...), append(controls, l.controls...)
}

// quietObserver remembers the states that a stream went through.
type quietObserver struct {
	mu     sync.Mutex
	states []change.StreamState
	last   map[change.StreamID]change.StreamState // the last state of each stream
	errs   []error

	restarts int
	progress []int // revisions accounted for, in each report
}

func (q *quietObserver) StreamState(stream change.StreamID, state change.StreamState, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.states = append(q.states, state)
	if q.last == nil {
		q.last = map[change.StreamID]change.StreamState{}
	}
	switch last := q.last[stream]; state {
	case change.StateWaiting, change.StateRefused, change.StateUnsupported, last:
	case change.StateLoading:
		q.last[stream] = state
	default:
		recordTransition(last, state)
		q.last[stream] = state
	}
	if err != nil {
		q.errs = append(q.errs, err)
	}
}
func (q *quietObserver) ListProgress(change.StreamID, int64, int64) {}
func (q *quietObserver) RecoveryProgress(_ change.StreamID, done, _, _ int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progress = append(q.progress, done)
}
func (q *quietObserver) Relisted(s change.StreamID, _ reflector.RelistReason) { q.WatchRestarted(s) }
func (q *quietObserver) WatchRestarted(change.StreamID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.restarts++
}
