package source

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// The index holds what a map would hold, through many changes, whatever the uids and versions look like.
func TestIndexIsAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	x, want := newIndex(), map[string]known{}
	for i := range 300_000 {
		key := fmt.Sprintf("namespace-%d/object-with-a-name-%d", random.IntN(20), random.IntN(2000))
		switch random.IntN(3) {
		case 0:
			x.remove(key)
			delete(want, key)
		default:
			k := known{uid: fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), i), version: fmt.Sprint(random.Uint64())}
			if random.IntN(10) == 0 {
				k = known{uid: "NOT-A-UUID", version: "99999999999999999999999" + fmt.Sprint(i)}
			}
			x.put(key, k.uid, k.version)
			want[key] = k
		}
	}
	if x.len() != len(want) {
		t.Fatalf("%d objects, want %d", x.len(), len(want))
	}
	for key, k := range want {
		if got, ok := x.get(key); !ok || got != k {
			t.Fatalf("%s is %v (%v), want %v", key, got, ok, k)
		}
	}
	if got := slices.Sorted(x.all()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatal("all gives other keys")
	}
	x.startPass()
	half := 0
	for key := range want {
		if half++; half%2 == 0 {
			x.mark(key)
			delete(want, key)
		}
	}
	unseen := x.unseen()
	slices.Sort(unseen)
	if !slices.Equal(unseen, slices.Sorted(maps.Keys(want))) {
		t.Fatal("unseen gives other keys")
	}
	if limit := 3 * 40_000 * 40; x.bytes > limit {
		t.Errorf("the keys take %d bytes, want at most %d: removed ones must be forgotten", x.bytes, limit)
	}
}
