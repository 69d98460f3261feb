package spool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/spool"
	"kubecdc/test/require"
)

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func pod(name string, version int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop","uid":"u-%s","resourceVersion":"%d"},"spec":{"n":%d}}`,
		name, name, version, version)
}

// batches are what a slot writes while its sink is away: the inventory has the Pod "old", and not "new".
func batches(n int) (all []*change.Batch) {
	seen := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	for i := range n {
		seen = seen.Add(time.Second + time.Nanosecond)
		now, before := 100+i, 99+i
		version := change.ResourceVersion(fmt.Sprint(now))
		b := &change.Batch{Slot: 3, Epoch: 7, Seq: uint64(41 + i), Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: version, Time: seen.Truncate(time.Millisecond)}},
			Changes: []change.Change{{Stream: pods, Op: change.Update, Namespace: "shop", Name: "old", UID: "u-old", ResourceVersion: version,
				Before: pod("old", before), After: pod("old", now), Time: seen}}}
		switch i {
		case 1:
			b.Changes = append(b.Changes, change.Change{Stream: pods, Op: change.Create, Namespace: "shop", Name: "new", UID: "u-new", ResourceVersion: version,
				After: pod("new", now), Time: seen})
			b.Malformed = []change.Malformed{{Stream: pods.ID(), Bytes: []byte("{"), Reason: "no object"}}
		case 2:
			b.Changes = append(b.Changes, change.Change{Stream: pods, Op: change.Delete, Namespace: "shop", Name: "new", UID: "u-new", ResourceVersion: version,
				Before: pod("new", now-1), Time: seen, Inferred: true, Gap: "g"})
			b.Controls = []change.Control{{Type: change.ControlProof, Stream: pods.ID(), ResourceVersion: version, TimeMs: seen.UnixMilli()}}
		}
		all = append(all, b)
	}
	return all
}

func folder(path string) *spool.Folder {
	return &spool.Folder{Path: path, MaxBytes: 1 << 30, Cluster: "c", ClusterUID: "uid", ClusterIDs: []string{"uid"}}
}

// filled has the batches in the file of slot 3.
func filled(t *testing.T, f *spool.Folder, all []*change.Batch) {
	t.Helper()
	start := []change.Position{{Stream: "nodes", ResourceVersion: "7"}, {Stream: pods.ID(), ResourceVersion: "99"}}
	must(t, f.Begin(t.Context(), 3, "kafka:x", start, 41, all[0]))
	s, err := f.Open(t.Context(), 3)
	must(t, err)
	opened, err := s.Writer(t.Context(), 8, s.Last)
	must(t, err)
	for _, b := range all[1:] {
		_, err := opened.Log.Write(t.Context(), b)
		must(t, err)
	}
	must(t, opened.Log.Close())
	s.Close()
}

// What is forwarded is what was written, also by a process that has opened the file anew: times to the nanosecond, versions and kinds.
func TestBatchesComeBackAsTheyWere(t *testing.T) {
	f, all := folder(t.TempDir()), batches(5)
	filled(t, f, all)
	s, err := f.Open(t.Context(), 3)
	must(t, err)
	defer s.Close()
	if s.First != 41 || s.Last != 45 || s.Log != "kafka:x" || f.Log(t.Context()) != "kafka:x" {
		t.Errorf("the file has batches %d to %d of %q", s.First, s.Last, s.Log)
	}
	next := 1
	must(t, s.Forward(t.Context(), 41, func(b *change.Batch) error {
		same(t, b, all[next])
		next++
		return nil
	}))
	if next != len(all) {
		t.Errorf("%d batches were forwarded", next-1)
	}
	changed := map[string]bool{}
	must(t, s.ChangedObjects(t.Context(), pods.ID(), nil, func(key string) { changed[key] = true }))
	must(t, s.ChangedObjects(t.Context(), pods.ID(), []string{"shop/new", "shop/other"}, func(key string) { changed["asked "+key] = true }))
	if want := map[string]bool{"shop/old": true, "shop/new": true, "asked shop/new": true}; !reflect.DeepEqual(changed, want) {
		t.Errorf("changed are %v", changed)
	}
	positions, err := s.PositionsAt(t.Context(), 43)
	if must(t, err); len(positions) != 2 || positions[0].ResourceVersion != "102" || positions[1].ResourceVersion != "7" {
		t.Errorf("at batch 43 the positions are %v", positions)
	}
	positions, err = s.PositionsAt(t.Context(), 40)
	if must(t, err); len(positions) != 2 || positions[0].ResourceVersion != "7" || positions[1].ResourceVersion != "99" {
		t.Errorf("before the first batch the positions are %v", positions)
	}
}

// A stream that is left out is not in the batches, also in a process that has opened the file anew.
func TestAStreamIsLeftOut(t *testing.T) {
	f, all := folder(t.TempDir()), batches(4)
	all[2].Positions = append(all[2].Positions, change.Position{Stream: "nodes", ResourceVersion: "8", Time: all[2].Positions[0].Time})
	filled(t, f, all)
	s, err := f.Open(t.Context(), 3)
	must(t, err)
	must(t, s.LeaveOut(t.Context(), func(id change.StreamID) bool { return id == pods.ID() }))
	s.Close()
	s, err = f.Open(t.Context(), 3)
	must(t, err)
	defer s.Close()
	next := uint64(41)
	must(t, s.Forward(t.Context(), 40, func(b *change.Batch) error {
		if b.Seq != next || len(b.Changes)+len(b.Malformed)+len(b.Controls) > 0 || len(b.Positions) > 1 || b.Seq == 43 && len(b.Positions) != 1 {
			t.Errorf("batch %d has %+v", next, b)
		}
		next++
		return nil
	}))
	positions, err := s.PositionsAt(t.Context(), 44)
	if must(t, err); next != 45 || len(positions) != 1 || positions[0].ResourceVersion != "8" {
		t.Errorf("up to batch %d, the positions are %v", next-1, positions)
	}
}

// A stream that is left out is not said to be current, in records with a list and in those that repeat it.
func TestALeftOutStreamIsNotCurrent(t *testing.T) {
	f, all := folder(t.TempDir()), batches(4)
	now := time.Now()
	for i, streams := range [][]change.StreamID{nil, {pods.ID(), "nodes"}, nil, {pods.ID()}} {
		all[i].Controls = append(all[i].Controls, change.CurrentControl(streams, now.Add(-time.Second), now))
	}
	filled(t, f, all)
	s, err := f.Open(t.Context(), 3)
	must(t, err)
	defer s.Close()
	var got []string
	forward := func() {
		must(t, s.Forward(t.Context(), 40, func(b *change.Batch) error {
			for _, c := range b.Controls {
				if c.Type == change.ControlCurrent {
					got = append(got, fmt.Sprintf("%d%v", b.Seq, c.Streams))
				}
			}
			return nil
		}))
	}
	forward()
	must(t, s.LeaveOut(t.Context(), func(id change.StreamID) bool { return id == pods.ID() }))
	forward()
	want := []string{"41[]", "42[pods nodes]", "43[]", "44[pods]", "42[nodes]", "43[nodes]"}
	if !slices.Equal(got, want) {
		t.Errorf("current are %v, want %v", got, want)
	}
}

func same(t *testing.T, got, want *change.Batch) {
	t.Helper()
	for i := range got.Changes {
		c, w := &got.Changes[i], want.Changes[i]
		if c.Stream.ID() != w.Stream.ID() || !reflect.DeepEqual(c.Stream.Resource, w.Stream.Resource) {
			t.Errorf("batch %d: the stream is %+v", got.Seq, c.Stream.Resource)
		}
		w.Stream, w.Provenance = c.Stream, c.Provenance // which is found again
		if !reflect.DeepEqual(*c, w) {
			t.Errorf("batch %d: the change is\n%+v\nwant\n%+v", got.Seq, *c, w)
		}
	}
	if len(got.Changes) != len(want.Changes) || got.Slot != want.Slot || got.Seq != want.Seq || !reflect.DeepEqual(got.Positions, want.Positions) ||
		!reflect.DeepEqual(got.Malformed, want.Malformed) || len(got.Controls) != len(want.Controls) {
		t.Errorf("the batch is\n%+v\nwant\n%+v", got, want)
	}
}

// A copy of the file, or of SQLite's log of it, is torn or damaged at any byte. It gives the first batches as they were, or is refused.
func TestADamagedFileGivesNothingWrong(t *testing.T) {
	f, all := folder(t.TempDir()), batches(60)
	must(t, f.Begin(t.Context(), 3, "kafka:x", []change.Position{{Stream: pods.ID(), ResourceVersion: "99"}}, 41, nil))
	s, err := f.Open(t.Context(), 3)
	must(t, err)
	if s.First != 41 || s.Last != 40 {
		t.Errorf("without a batch, it has %d to %d", s.First, s.Last)
	}
	opened, err := s.Writer(t.Context(), 7, s.Last)
	must(t, err)
	killed := map[string]map[string][]byte{} // the files as a process leaves them that is killed early, late, and that ends
	for i, b := range all {
		if i == 5 {
			killed["early"] = files(t, f)
		}
		_, err := opened.Log.Write(t.Context(), b)
		must(t, err)
	}
	killed["late"] = files(t, f)
	must(t, opened.Log.Close())
	s.Close()
	killed["closed"] = files(t, f)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, refused, used := rand.New(rand.NewPCG(seed, 1)), 0, 0
	for range damages {
		moment := []string{"early", "late", "closed"}[random.IntN(3)]
		damaged, what := damage(random, killed[moment])
		torn := folder(t.TempDir())
		for name, text := range damaged {
			must(t, os.WriteFile(filepath.Join(torn.Path, name), text, 0o600))
		}
		n, err := readAll(t, torn, all)
		switch {
		case errors.Is(err, spool.ErrUnusable):
			refused++
			_, err := torn.PutAside(3)
			must(t, err)
			if torn.Has(3) {
				t.Error("what was put aside is still there")
			}
		case err != nil:
			t.Errorf("%s, %s: %v", moment, what, err)
		case n > 0:
			used++
		}
	}
	if t.Logf("%d refused, %d used", refused, used); refused == 0 || used == 0 {
		t.Error("the damages prove nothing")
	}
}

const damages = 60

// files returns the files of the folder.
func files(t *testing.T, f *spool.Folder) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"slot-3.db", "slot-3.db-wal"} {
		text, err := os.ReadFile(filepath.Join(f.Path, name))
		if !errors.Is(err, os.ErrNotExist) {
			must(t, err)
			all[name] = text
		}
	}
	return all
}

// damage truncates one of the files, changes bits in it, or overwrites a block with zeros.
func damage(random *rand.Rand, files map[string][]byte) (damaged map[string][]byte, what string) {
	damaged = maps.Clone(files)
	names := slices.Sorted(maps.Keys(files))
	name := names[random.IntN(len(names))]
	text := slices.Clone(files[name])
	if len(text) == 0 {
		return damaged, "nothing"
	}
	place := random.IntN(len(text))
	switch random.IntN(3) {
	case 0:
		text, what = text[:place], fmt.Sprintf("%s ends at %d of %d", name, place, len(files[name]))
	case 1:
		text[place] ^= 1 << random.IntN(8)
		what = fmt.Sprintf("%s has another bit at %d of %d", name, place, len(text))
	default:
		place &^= 511
		clear(text[place:min(place+512, len(text))])
		what = fmt.Sprintf("%s has zeros at %d of %d", name, place, len(text))
	}
	damaged[name] = text
	return damaged, what
}

// readAll compares what is forwarded with what was written.
func readAll(t *testing.T, f *spool.Folder, all []*change.Batch) (n int, err error) {
	t.Helper()
	s, err := f.Open(context.Background(), 3)
	if err != nil || s == nil {
		return 0, err
	}
	defer s.Close()
	return n, s.Forward(context.Background(), 40, func(b *change.Batch) error {
		if b.Seq != uint64(41+n) {
			t.Errorf("batch %d comes after %d", b.Seq, 40+n)
			return errors.New("out of order")
		}
		same(t, b, all[n])
		n++
		return nil
	})
}

func TestAFileOfAnotherClusterIsRefused(t *testing.T) {
	f := folder(t.TempDir())
	filled(t, f, batches(2))
	f.ClusterUID, f.ClusterIDs = "another", nil
	if s, err := f.Open(t.Context(), 3); err == nil || s != nil {
		t.Errorf("it was opened: %v", err)
	}
}

var must = require.NoError
