package verify_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/verify"
)

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

// world is the state of a cluster and a copy, as "key version". The uid is the key's first letter, or the third field of "key
// version uid".
type world struct {
	live, held []string
	compacted  bool // the state at the position is compacted
	position   change.ResourceVersion
	later      func(w *world) // what happens between the two comparisons
	reads      int
}

func parse(text string) (key string, o verify.Object) {
	f := append(strings.Fields(text), text[:1])
	return f[0], verify.Object{UID: f[2], Version: change.ResourceVersion(f[1])}
}

func (w *world) read(_ context.Context, _ *change.Stream, version change.ResourceVersion,
	visit func(key string, o verify.Object)) error {
	if version != "" && w.compacted {
		return discovery.ErrCompacted
	}
	for _, text := range w.live {
		if key, o := parse(text); version == "" || o.Version.Compare(version) <= 0 {
			visit(key, o)
		}
	}
	return nil
}

func (w *world) copy() verify.Copy {
	return verify.Copy{Name: "table",
		Position: func(context.Context, change.StreamID, time.Time) (p verify.Position, known bool, err error) {
			if w.reads++; w.reads == 2 && w.later != nil {
				w.later(w)
			}
			p.ResourceVersion = w.position
			return p, w.position != "", nil
		},
		Objects: func(_ context.Context, _ *change.Stream, _ *verify.Position, visit func(string, verify.Object)) error {
			for _, text := range w.held {
				visit(parse(text))
			}
			return nil
		}}
}

func TestWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		world
		want    string
		pending int
	}{
		"equal":   {world{position: "9", live: []string{"a 1", "b 2"}, held: []string{"b 2", "a 1"}}, "", 0},
		"missing": {world{position: "9", live: []string{"a 1", "b 2"}, held: []string{"a 1"}}, "missing b 2 -", 0},
		"stale":   {world{position: "9", live: []string{"a 5"}, held: []string{"a 1"}}, "stale a 5 1", 0},
		"another": {world{position: "9", live: []string{"a 5 x"}, held: []string{"a 5 y"}}, "stale a 5 5", 0},
		"extra":   {world{position: "9", held: []string{"a 5"}}, "extra a - 5", 0},
		"a copy ahead of the position": {world{position: "9", live: []string{"a 5", "b 5"}, held: []string{"a 10", "b 5", "c 11"}, later: func(w *world) {
			w.position, w.live, w.held = "20", []string{"a 10", "b 5", "c 25"}, []string{"a 10", "b 5", "c 25"}
		}}, "", 1},
		"versions from the future": {world{position: "9", live: []string{"a 5", "b 5"}, held: []string{"a 99", "b 5", "c 98"}, later: func(w *world) {
			w.position = "20"
		}}, "stale a 5 99, extra c - 98", 0},
		"an object that comes and goes": {world{position: "9", live: []string{"a 5"}, later: func(w *world) {
			w.position, w.live = "12", []string{"a 11"}
		}}, "", 0},
		"a deletion that the copy has and the position not yet": {world{position: "9", live: []string{"a 5"}, later: func(w *world) {
			w.position, w.live = "12", nil
		}}, "", 0},
		"a position that is compacted": {world{position: "9", compacted: true, live: []string{"a 5", "b 12", "c 7"}, held: []string{"a 5", "b 3", "d 4"}},
			"missing c 7 -", 2},
		"no position": {world{}, "no position", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := verify.Stream(t.Context(), c.read, c.copy(), pods)
			must(t, err)
			var all []string
			for _, d := range r.Differences {
				all = append(all, fmt.Sprintf("%s %s %s %s", d.Kind, d.Key, version(d.Live), version(d.Held)))
			}
			if r.Problem != "" {
				all = append(all, r.Problem[:11])
			}
			if got := strings.Join(all, ", "); got != c.want || r.Pending != c.pending {
				t.Errorf("%q and %d pending, want %q and %d", got, r.Pending, c.want, c.pending)
			}
		})
	}
}

func version(o *verify.Object) string {
	if o == nil {
		return "-"
	}
	return string(o.Version)
}

// A hundred thousand objects are compared in 40 MB.
func TestMemoryOfAComparison(t *testing.T) {
	const n = 100_000
	identity := func(i int) (key, uid string, version change.ResourceVersion) {
		return fmt.Sprintf("namespace-%d/deployment-%d-7d9c6b8f5d-%05x", i%50, i%1000, i), fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i),
			change.VersionOf(uint64(1_000_000 + i))
	}
	most := uint64(0)
	copied := verify.Copy{Name: "topic",
		Position: func(context.Context, change.StreamID, time.Time) (p verify.Position, known bool, err error) {
			p.ResourceVersion = "9999999"
			return p, true, nil
		},
		Objects: func(_ context.Context, _ *change.Stream, _ *verify.Position, visit func(string, verify.Object)) error {
			for i := range n {
				key, uid, version := identity(i)
				visit(key, verify.Object{UID: uid, Version: version})
			}
			most = heap()
			return nil
		}}
	live := func(_ context.Context, _ *change.Stream, version change.ResourceVersion, visit func(string, verify.Object)) error {
		for i := range n {
			key, uid, version := identity(i)
			visit(key, verify.Object{UID: uid, Version: version})
		}
		return nil
	}
	before := heap()
	r, err := verify.Stream(t.Context(), live, copied, pods)
	if err != nil || r.Objects != n || len(r.Differences) > 0 {
		t.Fatalf("%d objects, %d differ, %v", r.Objects, len(r.Differences), err)
	}
	if took := (most - before) >> 20; took > 40 {
		t.Errorf("it took %d MB", took)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
