package run

import "testing"

// Memory is returned once after a burst, as soon as it is over. It is never returned under load, nor for what a quiet process
// allocates in an hour.
func TestMemoryIsReturnedAfterABurst(t *testing.T) {
	const mega = 1 << 20
	b, total, times := burst{}, uint64(0), 0
	checks := func(n int, each uint64) int {
		before := times
		for range n {
			if total += each; b.over(total) {
				times++
			}
		}
		return times - before
	}
	if n := checks(100, 500*mega); n != 0 {
		t.Errorf("returned %d times under load", n)
	}
	if n := checks(1, 0); n != 1 {
		t.Errorf("returned %d times at the end of the burst, want once", n)
	}
	const hour = 3600 / 5
	if n := checks(hour, mega/100); n != 0 {
		t.Errorf("returned %d times in an hour of quiet", n)
	}
	checks(1, 100*mega)
	if n := checks(2, 0); n != 1 {
		t.Errorf("returned %d times after the second burst, want once", n)
	}
}
