package rebuild

import (
	"testing"
	"testing/synctest"
	"time"
)

// Work that is done within five seconds is not logged. Work that takes a minute is logged every five seconds.
func TestReportsArePaced(t *testing.T) {
	for took, want := range map[time.Duration][2]int{time.Second: {10, 0}, time.Minute: {600, 11}} {
		synctest.Test(t, func(t *testing.T) {
			observed, logged := 0, 0
			p := NewPacer()
			for began := time.Now(); time.Since(began) < took; time.Sleep(time.Millisecond) {
				p.Report(func() { observed++ }, func() { logged++ })
			}
			if observed != want[0] || logged != want[1] {
				t.Errorf("work of %s is observed %d times and logged %d times, want %v", took, observed, logged, want)
			}
		})
	}
}
