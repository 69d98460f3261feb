package sqlite_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// checkRest verifies each name's first changes after a batch in the history, and that no more of them are read than are wanted.
func (h *history) checkRest(r *sqlite.Reader, from int) {
	h.t.Helper()
	for len(h.written[from]) == 0 { // its changes may be gone
		from++
	}
	batch, most := from+h.IntN(len(h.written)-from), h.IntN(5)
	want, got := map[string][]change.Change{}, map[string]int{}
	for _, changes := range h.written[batch:] {
		for _, c := range changes {
			if len(want[c.Name]) < most {
				want[c.Name] = append(want[c.Name], c)
			}
		}
	}
	q := sinks.Query{Each: sinks.Rest, After: &sinks.Cut{Batches: map[int]uint64{0: uint64(batch)}}, Wanted: func(l *sinks.Logged) bool { return got[l.Name] < most }}
	err := r.Changes(h.t.Context(), q, func(l *sinks.Logged) error {
		if got[l.Name]++; got[l.Name] <= len(want[l.Name]) {
			wantSame(h.t, "the rest", l.Change, want[l.Name][got[l.Name]-1])
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for name, all := range want {
		if got[name] != len(all) {
			h.t.Fatalf("%s has %d changes after batch %d, want %d", name, got[name], batch, len(all))
		}
	}
}

// More names than one page has, each with several objects.
func TestTheRestOfManyNames(t *testing.T) {
	h, _, r := newHistory(t, filepath.Join(t.TempDir(), "log"), 1, sqlite.Config{})
	h.write(1)
	const names, lives = 1500, 3
	b := &change.Batch{Epoch: 1, Seq: 2}
	for life := range lives {
		for name := range names {
			h.version += 2
			c := change.Change{Stream: pods, Op: change.Create, Namespace: "default", Name: fmt.Sprint("n", name), UID: fmt.Sprint(name, "-", 9-life),
				ResourceVersion: change.VersionOf(uint64(h.version)), Time: time.Now(), After: []byte(`{}`)}
			gone := c
			gone.Op, gone.Before, gone.After, gone.ResourceVersion = change.Delete, c.After, nil, change.VersionOf(uint64(h.version+1))
			b.Changes = append(b.Changes, c, gone)
		}
	}
	if _, err := h.log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	last, all := map[string]change.ResourceVersion{}, map[string]int{}
	err := r.Changes(t.Context(), sinks.Query{Each: sinks.Rest, After: &sinks.Cut{Batches: map[int]uint64{0: 1}}}, func(l *sinks.Logged) error {
		if l.ResourceVersion.Compare(last[l.Name]) <= 0 {
			t.Errorf("%s at %s comes after %s", l.Name, l.ResourceVersion, last[l.Name])
		}
		last[l.Name] = l.ResourceVersion
		all[l.Name]++
		return nil
	})
	if err != nil || len(all) != names {
		t.Fatalf("%d names, want %d: %v", len(all), names, err)
	}
	for name := range maps.Keys(all) {
		if all[name] != 2*lives {
			t.Fatalf("%s has %d changes, want %d", name, all[name], 2*lives)
		}
	}
}
