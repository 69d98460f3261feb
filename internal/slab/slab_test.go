package slab

import "testing"

// A slab with one hold left is not used again. Later slabs have at least the requested room.
func TestRoom(t *testing.T) {
	for _, size := range []int{0, 1, smallest, smallest + 1, 5000, 64 << 10, largest - 1, largest, largest + 1} {
		var all []*Slab
		for range 3 {
			s := New(size)
			if len(s.Bytes) != 0 || cap(s.Bytes) < size {
				t.Fatalf("a slab for %d bytes has %d of %d", size, len(s.Bytes), cap(s.Bytes))
			}
			s.Bytes = append(s.Bytes, make([]byte, size*len(all))...) // it may have grown
			s.Hold().Release()
			for _, held := range all {
				if held == s {
					t.Fatalf("a slab of %d bytes that is held was given out again", size)
				}
			}
			all = append(all, s)
		}
		for _, s := range all {
			s.Release()
		}
	}
}
