package known

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kubecdc/change"
)

// The index holds what a map would hold, through many changes, for uids and versions of any form.
func TestIndexIsAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	x, want := New(), map[string]Object{}
	for i := range 300_000 {
		key := fmt.Sprintf("namespace-%d/object-with-a-name-%d", random.IntN(20), random.IntN(2000))
		switch random.IntN(3) {
		case 0:
			x.Remove(key)
			delete(want, key)
		default:
			k := Object{UID: fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), i), Version: change.VersionOf(random.Uint64())}
			if random.IntN(10) == 0 {
				k = Object{UID: "NOT-A-UUID", Version: change.ResourceVersion("99999999999999999999999" + fmt.Sprint(i))}
			}
			x.Put(key, k.UID, k.Version)
			want[key] = k
		}
	}
	if x.Len() != len(want) {
		t.Fatalf("%d objects, want %d", x.Len(), len(want))
	}
	for key, k := range want {
		if got, ok := x.Get(key); !ok || got != k {
			t.Fatalf("%s is %v (%v), want %v", key, got, ok, k)
		}
	}
	if got := slices.Sorted(x.All()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatal("all gives other keys")
	}
	var newest Object
	for _, k := range want {
		if newest.UID == "" || k.Version.Compare(newest.Version) > 0 {
			newest = k
		}
	}
	if key, got, ok := x.Newest(); !ok || got != newest || want[key] != got {
		t.Fatalf("the newest is %s, %v, want %v", key, got, newest)
	}
	x.StartPass()
	half := 0
	for key := range want {
		if half++; half%2 == 0 {
			if k := want[key]; random.IntN(2) == 0 || x.CompareListed(key, k.UID, k.Version) != Same {
				x.Mark(key)
			}
			delete(want, key)
		}
	}
	unseen := x.Unseen()
	slices.Sort(unseen)
	if !slices.Equal(unseen, slices.Sorted(maps.Keys(want))) {
		t.Fatal("unseen gives other keys")
	}
	if limit := 3 * 40_000 * 40; x.bytes > limit {
		t.Errorf("the keys take %d bytes, want at most %d: removed ones must be forgotten", x.bytes, limit)
	}
}
