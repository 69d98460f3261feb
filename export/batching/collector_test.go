package batching

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// When a batch is due: what comes when, and after how long, with how many changes, each batch goes.
func TestABatchIsDue(t *testing.T) {
	const linger = 100 * time.Millisecond
	type sent struct {
		after time.Duration
		item  reflector.Item
	}
	type handed struct {
		at      time.Duration
		changes int
	}
	limits := Limits{MaxChanges: 3, MaxBytes: 10_000, Linger: linger, Watermark: time.Minute}
	one, large, mark := created(1, 0), created(1, 12_000), reflector.Item{Stream: pods.ID(), Version: "2"}
	record := reflector.Item{Stream: pods.ID(), Control: &change.Control{Type: change.ControlGap}}
	for name, test := range map[string]struct {
		sent []sent
		want []handed
	}{
		"at once, when nothing went before": {[]sent{{time.Second, one}}, []handed{{time.Second, 1}}},
		"a linger after the one before": {[]sent{{0, one}, {time.Millisecond, one}, {time.Millisecond, one}},
			[]handed{{0, 1}, {linger, 2}}},
		"at once, with so many changes": {[]sent{{0, one}, {time.Millisecond, one}, {0, one}, {0, one}, {0, one}},
			[]handed{{0, 1}, {time.Millisecond, 3}, {time.Millisecond + linger, 1}}},
		"at once, with so many bytes":       {[]sent{{0, one}, {time.Millisecond, large}}, []handed{{0, 1}, {time.Millisecond, 1}}},
		"a control record as a change":      {[]sent{{0, one}, {time.Millisecond, record}}, []handed{{0, 1}, {linger, 0}}},
		"a position alone waits for others": {[]sent{{0, mark}, {time.Second, mark}}, []handed{{6 * time.Second, 0}}},
		"and for an interval since the last ones": {[]sent{{0, mark}, {10 * time.Second, mark}},
			[]handed{{6 * time.Second, 0}, {66 * time.Second, 0}}},
		"a change takes it along": {[]sent{{0, mark}, {time.Second, one}}, []handed{{time.Second, 1}}},
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
				var got []handed
				for b := q.Next(t.Context(), stop); b != nil; b = q.Next(t.Context(), stop) {
					got = append(got, handed{time.Since(began), len(b.Changes)})
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("batches are handed over at %v, want %v", got, test.want)
				}
			})
		})
	}
}

// What is left when nothing is sent any more goes at once, in order, batch by batch.
func TestWhatIsLeftGoesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(100, 1<<20, Limits{MaxChanges: 2, MaxBytes: 1 << 20, Linger: time.Hour, Watermark: time.Hour})
		began, stop := time.Now(), make(chan struct{})
		for n := range 5 {
			if err := q.Send(t.Context(), created(n, 0)); err != nil {
				t.Fatal(err)
			}
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
