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
	"kubecdc/source/reflector"
)

const interval = 30 * time.Second

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func newTestQueue(limits Limits) *Queue {
	limits.MaxChanges, limits.MaxBytes = 100, 1<<20
	return New(10, 1<<20, limits)
}

func bookmark(t *testing.T, q *Queue, stream change.StreamID, version int) {
	t.Helper()
	if err := q.Send(t.Context(), reflector.Item{Stream: stream, Version: change.ResourceVersion(fmt.Sprint(version)), Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

// created is a change of so many bytes more than an empty one.
func created(version, bytes int) reflector.Item {
	v := fmt.Sprint(version)
	return reflector.Item{Stream: pods.ID(), Version: change.ResourceVersion(v),
		Change: &change.Change{Op: change.Create, Stream: pods, Name: "a", UID: "u", ResourceVersion: change.ResourceVersion(v), After: make([]byte, bytes)}}
}

// 40 quiet streams say every half minute where they are, each at a time of its own: a batch an interval tells of all of
// them, whatever the queue's room is.
func TestPositionsAloneGoOnceAnInterval(t *testing.T) {
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
			var taken []time.Time
			told, last := map[change.StreamID]time.Time{}, map[change.StreamID]change.ResourceVersion{}
			for b := q.Next(t.Context(), stop); b != nil; b = q.Next(t.Context(), stop) {
				taken = append(taken, time.Now())
				for _, p := range b.Newest {
					if before, ok := told[p.Stream]; ok && time.Since(before) > interval+test.want {
						t.Errorf("%s was told of after %s", p.Stream, time.Since(before))
					}
					told[p.Stream], last[p.Stream] = time.Now(), p.ResourceVersion
				}
				q.Done(b)
			}
			for i := range taken[:len(taken)-2] { // the last goes as the queue is stopped
				if between := taken[i+1].Sub(taken[i]); between < test.want {
					t.Errorf("batches %d and %d of positions alone come %s apart", i, i+1, between)
				}
			}
			for n := range streams {
				got, want := last[change.StreamID(fmt.Sprint("stream-", n))], change.VersionOf(uint64(streams*(rounds-1)+n))
				if got != want {
					t.Errorf("stream %d ends at %s, not at %s", n, got, want)
				}
			}
			if items, bytes := q.Fill(); items != 0 || bytes != 0 {
				t.Errorf("%d items and %d bytes are held at the end", items, bytes)
			}
		})
	}
}

// A change does not wait, and takes along the positions that do.
func TestAChangeTakesPositionsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(Limits{Watermark: interval})
		bookmark(t, q, "quiet", 1)
		q.Done(q.Next(t.Context(), nil)) // from now on for an interval
		bookmark(t, q, "quiet", 2)
		bookmark(t, q, "quiet", 3)
		if err := q.Send(t.Context(), created(9, 0)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b := q.Next(t.Context(), nil)
		if waited := time.Since(began); waited > time.Millisecond || len(b.Changes) != 1 || b.Newest["quiet"].ResourceVersion != "3" {
			t.Errorf("after %s: %d changes, %v", waited, len(b.Changes), b.Newest)
		}
	})
}

// blocked sends an item, and gives a function that reports whether it still waits for room.
func blocked(t *testing.T, q *Queue, item reflector.Item) func() bool {
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

// The room of an item is free once its batch is taken, that of its bytes once the batch is durable.
func TestAFullQueueHoldsItsStreamsBack(t *testing.T) {
	for name, test := range map[string]struct {
		items, bytes, size int // of the queue; of each change
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
						t.Fatalf("change %d finds no room", n)
					}
				}
				waits := blocked(t, q, created(4, test.size))
				if !waits() {
					t.Fatal("a fourth change finds room")
				}
				bookmark(t, q, "quiet", 1) // needs none
				b := q.Next(t.Context(), nil)
				if waits() == test.afterNext {
					t.Errorf("the fourth waits when the first batch is taken: %v", !test.afterNext)
				}
				if q.Done(b); waits() {
					t.Error("the fourth waits when the first batch is durable")
				}
			})
		})
	}
}

// A change that is larger than the whole queue passes, alone.
func TestAChangeLargerThanTheQueuePassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(10, 1000, Limits{MaxChanges: 100, MaxBytes: 1 << 20})
		if waits := blocked(t, q, created(1, 5000)); waits() {
			t.Fatal("it finds no room")
		}
		waits := blocked(t, q, created(2, 0))
		if !waits() {
			t.Error("another one passes beside it")
		}
		q.Done(q.Next(t.Context(), nil))
		if waits() {
			t.Error("the other one waits when it has gone")
		}
	})
}

// A stream that is stopped while it waits takes no room along.
func TestAStoppedStreamTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(2, 1000, Limits{MaxChanges: 100, MaxBytes: 1 << 20})
		if err := q.Send(t.Context(), created(1, 5000)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Send(ctx, created(2, 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error is %v", err)
		}
		q.Done(q.Next(t.Context(), nil))
		if items, bytes := q.Fill(); items != 0 || bytes != 0 {
			t.Errorf("%d items and %d bytes are held", items, bytes)
		}
		for n := range 2 {
			if waits := blocked(t, q, created(3+n, 0)); waits() {
				t.Errorf("change %d finds no room", 3+n)
			}
		}
	})
}
