package export

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

const interval = 30 * time.Second

func newTestQueue(limits Limits) *queue {
	limits.MaxChanges, limits.MaxBytes = 100, 1<<20
	return newQueue(10, 1<<20, limits)
}

func bookmark(t *testing.T, q *queue, stream string, version int) {
	t.Helper()
	if err := q.Send(t.Context(), reflector.Item{Stream: stream, Version: fmt.Sprint(version), Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
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
					bookmark(t, q, fmt.Sprint("stream-", n%streams), n)
					time.Sleep(interval / streams)
				}
			}()
			var taken []time.Time
			told, last := map[string]time.Time{}, map[string]string{}
			for b := q.next(t.Context(), stop); b != nil; b = q.next(t.Context(), stop) {
				taken = append(taken, time.Now())
				for _, p := range b.positions {
					if before, ok := told[p.Stream]; ok && time.Since(before) > interval+test.want {
						t.Errorf("%s was told of after %s", p.Stream, time.Since(before))
					}
					told[p.Stream], last[p.Stream] = time.Now(), p.ResourceVersion
				}
				q.done(b)
			}
			for i := range taken[:len(taken)-2] { // the last goes as the queue is stopped
				if between := taken[i+1].Sub(taken[i]); between < test.want {
					t.Errorf("batches %d and %d of positions alone come %s apart", i, i+1, between)
				}
			}
			for n := range streams {
				if want := fmt.Sprint(streams*(rounds-1) + n); last[fmt.Sprint("stream-", n)] != want {
					t.Errorf("stream %d ends at %s, not at %s", n, last[fmt.Sprint("stream-", n)], want)
				}
			}
			if items, bytes := q.fill(); items != 0 || bytes != 0 {
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
		q.done(q.next(t.Context(), nil)) // from now on for an interval
		bookmark(t, q, "quiet", 2)
		bookmark(t, q, "quiet", 3)
		c := change.Change{Op: change.Create, Stream: pods, Name: "a", UID: "u", ResourceVersion: "9"}
		if err := q.Send(t.Context(), reflector.Item{Stream: pods.ID(), Change: &c, Version: "9"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b := q.next(t.Context(), nil)
		if waited := time.Since(began); waited > time.Millisecond || len(b.batch.Changes) != 1 || b.positions["quiet"].ResourceVersion != "3" {
			t.Errorf("after %s: %d changes, %v", waited, len(b.batch.Changes), b.positions)
		}
	})
}
