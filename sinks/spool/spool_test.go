package spool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks/spool"
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
	s, err := f.Create(t.Context(), 3, "kafka:x", 0, []change.Position{{Stream: "nodes", ResourceVersion: "7"}, {Stream: pods.ID(), ResourceVersion: "99"}})
	must(t, err)
	opened, err := s.Writer(t.Context(), 7, 40)
	must(t, err)
	for _, b := range all {
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

// A copy of the file that ends anywhere gives the first batches as they were, or is refused.
func TestATornFileGivesNothingWrong(t *testing.T) {
	f, all := folder(t.TempDir()), batches(60)
	filled(t, f, all)
	text, err := os.ReadFile(filepath.Join(f.Path, "slot-3.db"))
	must(t, err)
	refused := 0
	for size := len(text) - 1; size > 0; size -= len(text)/40 + 7 {
		torn := folder(t.TempDir())
		must(t, os.WriteFile(filepath.Join(torn.Path, "slot-3.db"), text[:size], 0o600))
		if err := readAll(t, torn, all); errors.Is(err, spool.ErrUnusable) {
			refused++
			_, err := torn.PutAside(3)
			must(t, err)
			if torn.Has(3) {
				t.Error("what was put aside is still there")
			}
		} else if err != nil {
			t.Errorf("torn at %d of %d bytes: %v", size, len(text), err)
		}
	}
	if refused == 0 {
		t.Error("no torn file was refused")
	}
}

func readAll(t *testing.T, f *spool.Folder, all []*change.Batch) error {
	t.Helper()
	s, err := f.Open(context.Background(), 3)
	if err != nil || s == nil {
		return err
	}
	defer s.Close()
	return s.Forward(context.Background(), 40, func(b *change.Batch) error {
		same(t, b, all[b.Seq-41])
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
