package recovery

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A read costs the time by which it delays the others: of reads that run together, each its share.
func TestReadsThatRunTogetherShareTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(&production, 0)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				from := m.begin()
				time.Sleep(8 * time.Millisecond)
				if cost := m.end(from); cost < 0.0019 || cost > 0.0021 {
					t.Errorf("one of four reads of 8 ms costs %g s, want 0.002", cost)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second) // nothing runs
		from := m.begin()
		time.Sleep(8 * time.Millisecond)
		if cost := m.end(from); cost < 0.0079 || cost > 0.0081 {
			t.Errorf("a read of 8 ms that runs alone costs %g s", cost)
		}
	})
}
