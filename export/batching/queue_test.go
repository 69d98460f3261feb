package batching

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/test/require"
)

var must = require.NoError

const interval = 30 * time.Second

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func newTestQueue(limits Limits) *Queue {
	limits.MaxChanges, limits.MaxBytes = 100, 1<<20
	return New(10, 1<<20, limits)
}

func bookmark(t *testing.T, q *Queue, stream change.StreamID, version int) {
	t.Helper()
	must(t, q.Send(t.Context(), change.Item{Stream: stream, Version: change.ResourceVersion(fmt.Sprint(version)), Time: time.Now()}))
}

// created returns a change whose object has a number of bytes.
func created(version, bytes int) change.Item {
	v := fmt.Sprint(version)
	return change.Item{Stream: pods.ID(), Version: change.ResourceVersion(v),
		Change: &change.Change{Op: change.Create, Stream: pods, Name: "a", UID: "u", ResourceVersion: change.ResourceVersion(v), After: make([]byte, bytes)}}
}

// 40 quiet streams send a bookmark every half minute, each at a different time. One batch per interval has all their positions,
// whatever the queue's capacity is.
func TestPositionsAloneAreDueOncePerInterval(t *testing.T) {
	for _, test := range []struct{ watermark, want time.Duration }{{interval, interval}, {0, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			q := newTestQueue(Limits{Watermark: test.watermark})
			const streams, rounds = 40, 20
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				for n := range streams * rounds {
					bookmark(t, q, change.StreamID(fmt.Sprint("stream-", n%streams)), n)
					time.Sleep(interval / streams)
				}
			}()
			var popped []time.Time
			seen, last := map[change.StreamID]time.Time{}, map[change.StreamID]change.ResourceVersion{}
			for b := q.Next(t.Context(), stop); b != nil; b = q.Next(t.Context(), stop) {
				popped = append(popped, time.Now())
				for _, p := range b.Newest {
					if before, ok := seen[p.Stream]; ok && time.Since(before) > interval+test.want {
						t.Errorf("the position of %s came after %s", p.Stream, time.Since(before))
					}
					seen[p.Stream], last[p.Stream] = time.Now(), p.ResourceVersion
				}
				q.Done(b)
			}
			for i := range popped[:len(popped)-2] { // the last batch is due because the queue is stopped
				if pause := popped[i+1].Sub(popped[i]); pause < test.want {
					t.Errorf("batches %d and %d of positions alone come within %s", i, i+1, pause)
				}
			}
			for n := range streams {
				got, want := last[change.StreamID(fmt.Sprint("stream-", n))], change.VersionOf(uint64(streams*(rounds-1)+n))
				if got != want {
					t.Errorf("stream %d ends at %s, not at %s", n, got, want)
				}
			}
			if items, bytes := q.Pending(); items != 0 || bytes != 0 {
				t.Errorf("%d items and %d bytes are pending at the end", items, bytes)
			}
		})
	}
}

// A change is due at once, and its batch has the waiting positions.
func TestAChangeCarriesWaitingPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(Limits{Watermark: interval})
		bookmark(t, q, "quiet", 1)
		q.Done(q.Next(t.Context(), nil)) // the next batch of positions is due an interval later
		bookmark(t, q, "quiet", 2)
		bookmark(t, q, "quiet", 3)
		must(t, q.Send(t.Context(), created(9, 0)))
		began := time.Now()
		b := q.Next(t.Context(), nil)
		if waited := time.Since(began); waited > time.Millisecond || len(b.Changes) != 1 || b.Newest["quiet"].ResourceVersion != "3" {
			t.Errorf("after %s: %d changes, %v", waited, len(b.Changes), b.Newest)
		}
	})
}

// blocked sends an item, and returns a function that reports whether Send is still blocked.
func blocked(t *testing.T, q *Queue, item change.Item) func() bool {
	var sent atomic.Bool
	go func() {
		if q.Send(t.Context(), item) == nil {
			sent.Store(true)
		}
	}()
	return func() bool {
		synctest.Wait()
		return !sent.Load()
	}
}

// An item's place is released when its batch is popped, its bytes when the batch is durable.
func TestSendBlocksWhileTheQueueIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		items, bytes, size int // limits of the queue, and the size of each change
		afterNext          bool
	}{
		"items": {items: 3, bytes: 1 << 20, afterNext: true},
		"bytes": {items: 100, bytes: 36_000, size: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(test.items, int64(test.bytes), Limits{MaxChanges: 100, MaxBytes: 1 << 20})
				for n := range 3 {
					if waits := blocked(t, q, created(n, test.size)); waits() {
						t.Fatalf("Send of change %d blocks", n)
					}
				}
				waits := blocked(t, q, created(4, test.size))
				if !waits() {
					t.Fatal("Send of a fourth change does not block")
				}
				bookmark(t, q, "quiet", 1) // occupies no capacity
				b := q.Next(t.Context(), nil)
				if waits() == test.afterNext {
					t.Errorf("Send is blocked after the first batch was popped: %v", !test.afterNext)
				}
				if q.Done(b); waits() {
					t.Error("Send is blocked after the first batch became durable")
				}
			})
		})
	}
}

// A change that is larger than the queue passes when the queue is empty.
func TestAChangeLargerThanTheQueuePassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(10, 1000, Limits{MaxChanges: 100, MaxBytes: 1 << 20})
		if waits := blocked(t, q, created(1, 5000)); waits() {
			t.Fatal("Send blocks though the queue is empty")
		}
		waits := blocked(t, q, created(2, 0))
		if !waits() {
			t.Error("a second change does not wait for it")
		}
		q.Done(q.Next(t.Context(), nil))
		if waits() {
			t.Error("the second change is blocked after the first became durable")
		}
	})
}

// A stream that is stopped while Send is blocked occupies no capacity.
func TestAStoppedStreamOccupiesNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(2, 1000, Limits{MaxChanges: 100, MaxBytes: 1 << 20})
		must(t, q.Send(t.Context(), created(1, 5000)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Send(ctx, created(2, 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error is %v", err)
		}
		q.Done(q.Next(t.Context(), nil))
		if items, bytes := q.Pending(); items != 0 || bytes != 0 {
			t.Errorf("%d items and %d bytes are pending", items, bytes)
		}
		for n := range 2 {
			if waits := blocked(t, q, created(3+n, 0)); waits() {
				t.Errorf("Send of change %d blocks", 3+n)
			}
		}
	})
}

// What was read and is not yet durable is known by stream, from its first change on, also while its batch is committed. A
// position without a record does not count.
func TestWhatIsNotDurableIsKnownByStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(10, 1<<20, Limits{MaxChanges: 2, MaxBytes: 1 << 20})
		want := func(age time.Duration) {
			t.Helper()
			if all := q.Since(); len(all) != 1 || time.Since(all[pods.ID()]) != age {
				t.Errorf("%+v", all)
			}
		}
		bookmark(t, q, "quiet", 1)
		if all := q.Since(); len(all) > 0 {
			t.Errorf("a bookmark counts: %+v", all)
		}
		for n := range 3 {
			item := created(n+5, 0)
			item.Time = time.Now()
			must(t, q.Send(t.Context(), item))
			time.Sleep(time.Minute)
		}
		want(3 * time.Minute)
		b := q.Next(t.Context(), nil)
		want(3 * time.Minute)
		q.Done(b)
		want(time.Minute)
		q.Done(q.Next(t.Context(), nil))
		if all := q.Since(); len(all) > 0 {
			t.Errorf("durable changes count: %+v", all)
		}
	})
}

// While a batch is being written, the next one is returned only if it is full, or if there is no room for more.
func TestABatchThatMayGrowWaitsForTheOneBefore(t *testing.T) {
	for name, test := range map[string]struct {
		changes  int // sent after the first batch
		capacity int
		returned bool
	}{
		"it may grow":      {changes: 1, capacity: 1 << 20},
		"it is full":       {changes: 2, capacity: 1 << 20, returned: true},
		"there is no room": {changes: 2, capacity: 3500, returned: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(10, int64(test.capacity), Limits{MaxChanges: 2, MaxBytes: 1 << 20})
				blocked(t, q, created(1, 1000))()
				q.Next(t.Context(), nil)
				for n := range test.changes {
					blocked(t, q, created(n+2, 1000))()
				}
				written := make(chan struct{})
				time.AfterFunc(time.Minute, func() { close(written) })
				began := time.Now()
				b := q.NextDuring(t.Context(), nil, written)
				if waited := time.Since(began); (b != nil) != test.returned || (waited == 0) != test.returned {
					t.Errorf("%v after %s", b, waited)
				}
			})
		})
	}
}
