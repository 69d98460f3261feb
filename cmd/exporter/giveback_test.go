package main

import "testing"

// Memory is given back once after a burst, as soon as it is over; never under load, and not for what a quiet process
// allocates in an hour.
func TestMemoryIsGivenBackAfterABurst(t *testing.T) {
	const mega = 1 << 20
	b, total, times := bursts{}, uint64(0), 0
	looks := func(n int, each uint64) int {
		before := times
		for range n {
			if total += each; b.over(total) {
				times++
			}
		}
		return times - before
	}
	if n := looks(100, 500*mega); n != 0 {
		t.Errorf("given back %d times under load", n)
	}
	if n := looks(1, 0); n != 1 {
		t.Errorf("given back %d times at the end of the burst, want once", n)
	}
	const hour = 3600 / 5
	if n := looks(hour, mega/100); n != 0 {
		t.Errorf("given back %d times in an hour of quiet", n)
	}
	looks(1, 100*mega)
	if n := looks(2, 0); n != 1 {
		t.Errorf("given back %d times after the second burst, want once", n)
	}
}
