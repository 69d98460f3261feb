package known

import (
	"fmt"
	"testing"

	"kubecdc/change"
)

const (
	one   = "00000001-0000-4000-8000-000000000000"
	other = "00000002-0000-4000-8000-000000000000"
)

// An object differs in one of six ways from what the log has.
func TestDifference(t *testing.T) {
	for _, c := range []struct {
		log     *Object
		uid     string
		version change.ResourceVersion
		want    Difference
	}{
		{nil, one, "5", Absent},
		{&Object{one, "5"}, one, "5", Same},
		{&Object{one, "5"}, one, "10", Newer},
		{&Object{one, "10"}, one, "5", Older},
		{&Object{one, "5"}, other, "10", Successor},
		{&Object{one, "10"}, other, "5", Predecessor},
		{&Object{one, "10"}, other, "10", Predecessor},
		{&Object{"no uuid", "5"}, "no uuid", "5", Same},
		{&Object{one, "99999999999999999999"}, one, "100000000000000000000", Newer}, // beyond 2^64
		{&Object{one, "100000000000000000000"}, one, "99999999999999999999", Older},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			x := New()
			if c.log != nil {
				x.Put("a/b", c.log.UID, c.log.Version)
			}
			x.StartPass()
			if got := x.Compare("a/b", c.uid, c.version); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
			if got := x.CompareListed("a/b", c.uid, c.version); got != c.want {
				t.Errorf("for a list: %d, want %d", got, c.want)
			}
			if unseen := len(x.Unseen()) > 0; unseen != (c.log != nil && c.want != Same) {
				t.Errorf("the list has not seen the object: %t", unseen)
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	x := New()
	for i := range 10_000 {
		x.Put(fmt.Sprintf("namespace/name-%d", i), one, "5")
	}
	for b.Loop() {
		if x.Compare("namespace/name-500", one, "6") != Newer {
			b.Fatal("not newer")
		}
	}
}
