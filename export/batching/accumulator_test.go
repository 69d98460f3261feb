package batching

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
)

// Items are sent at given times. The test checks when each batch is due, and how many changes it has.
func TestABatchIsDue(t *testing.T) {
	const linger = 100 * time.Millisecond
	type sent struct {
		after time.Duration
		item  change.Item
	}
	type popped struct {
		due     time.Duration
		changes int
	}
	limits := Limits{MaxChanges: 3, MaxBytes: 10_000, Linger: linger, Watermark: time.Minute}
	one, large, mark := created(1, 0), created(1, 12_000), change.Item{Stream: pods.ID(), Version: "2"}
	removed := change.Item{Stream: pods.ID(), Position: &change.Position{Stream: pods.ID(), Ended: change.EndedRemoved}}
	record := change.Item{Stream: pods.ID(), Control: &change.Control{Type: change.ControlGap}}
	for name, test := range map[string]struct {
		sent []sent
		want []popped
	}{
		"at once, if there was no batch before": {[]sent{{time.Second, one}}, []popped{{time.Second, 1}}},
		"one linger after the last batch": {[]sent{{0, one}, {time.Millisecond, one}, {time.Millisecond, one}},
			[]popped{{0, 1}, {linger, 2}}},
		"at once, with MaxChanges changes": {[]sent{{0, one}, {time.Millisecond, one}, {0, one}, {0, one}, {0, one}},
			[]popped{{0, 1}, {time.Millisecond, 3}, {time.Millisecond + linger, 1}}},
		"at once, with MaxBytes bytes":               {[]sent{{0, one}, {time.Millisecond, large}}, []popped{{0, 1}, {time.Millisecond, 1}}},
		"a control record, like a change":            {[]sent{{0, one}, {time.Millisecond, record}}, []popped{{0, 1}, {linger, 0}}},
		"a position alone waits for other positions": {[]sent{{0, mark}, {time.Second, mark}}, []popped{{6 * time.Second, 0}}},
		"and for the interval since the last batch of positions": {[]sent{{0, mark}, {10 * time.Second, mark}},
			[]popped{{6 * time.Second, 0}, {66 * time.Second, 0}}},
		"at once, with the end of a removed stream": {[]sent{{0, one}, {time.Millisecond, one}, {0, removed}, {0, one}},
			[]popped{{0, 1}, {time.Millisecond, 1}, {time.Millisecond + linger, 1}}},
		"a change carries a waiting position": {[]sent{{0, mark}, {time.Second, one}}, []popped{{time.Second, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				q := New(100, 1<<20, limits)
				stop := make(chan struct{})
				go func() {
					defer close(stop)
					for _, s := range test.sent {
						time.Sleep(s.after)
						if err := q.Send(t.Context(), s.item); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(time.Hour)
				}()
				var got []popped
				for b := q.Next(t.Context(), stop); b != nil; b = q.Next(t.Context(), stop) {
					got = append(got, popped{time.Since(began), len(b.Changes)})
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("batches are due at %v, want %v", got, test.want)
				}
			})
		})
	}
}

// After stop, all remaining batches are due at once, in order.
func TestRemainingBatchesAreDueAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(100, 1<<20, Limits{MaxChanges: 2, MaxBytes: 1 << 20, Linger: time.Hour, Watermark: time.Hour})
		began, stop := time.Now(), make(chan struct{})
		for n := range 5 {
			must(t, q.Send(t.Context(), created(n, 0)))
		}
		close(stop)
		var versions []change.ResourceVersion
		for b := q.Next(t.Context(), stop); b != nil; b = q.Next(t.Context(), stop) {
			for _, c := range b.Changes {
				versions = append(versions, c.ResourceVersion)
			}
			if want := versions[len(versions)-1]; b.Newest[pods.ID()].ResourceVersion != want {
				t.Errorf("the batch moves the stream to %s, its last change is %s", b.Newest[pods.ID()].ResourceVersion, want)
			}
		}
		if want := []change.ResourceVersion{"0", "1", "2", "3", "4"}; !slices.Equal(versions, want) || time.Since(began) > 0 {
			t.Errorf("after %s: %v, want %v", time.Since(began), versions, want)
		}
	})
}
