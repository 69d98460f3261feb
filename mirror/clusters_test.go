package mirror_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// inFile returns a reader of a cluster in a mirror's file.
func (w *topics) inFile(path string) *sqlite.Reader {
	w.t.Helper()
	file, err := sqlitefile.Share(w.t.Context(), path)
	must(w.t, err)
	r, err := sqlite.NewReader(w.t.Context(), file, w.cfg.Cluster)
	must(w.t, err)
	w.t.Cleanup(func() { _ = r.Close() })
	return r
}

// ask writes an audit record, whose id has the number as its time.
func (w *topics) ask(number int) {
	w.t.Helper()
	must(w.t, w.sink.WriteAudit(w.t.Context(), []audit.Record{{ID: fmt.Sprintf("%012x%020x", number, 0), User: "user of " + w.cfg.Cluster, Verb: "update",
		Resource: "pods", Namespace: "default", Name: "o1", Received: time.Now(), Time: time.Now(), Answered: time.Now()}}))
}

// users lists who asked about the object.
func users(t *testing.T, r *sqlite.Reader) (all []string, c audit.Coverage) {
	t.Helper()
	c, err := r.Audits(t.Context(), audit.Query{Name: "o1"}, func(r *audit.Record) error {
		all = append(all, r.User)
		return nil
	})
	must(t, err)
	return all, c
}

// lastPositions returns each stream's last version, from spans if inSpans.
func lastPositions(t *testing.T, r sinks.Reader, inSpans bool) map[change.StreamID]change.ResourceVersion {
	t.Helper()
	last := map[change.StreamID]change.ResourceVersion{}
	must(t, r.Controls(t.Context(), time.Time{}, func(*sinks.Span) bool { return !inSpans }, func(c *change.Control) error {
		for _, p := range c.Positions {
			last[p.Stream] = p.ResourceVersion
		}
		return nil
	}))
	return last
}

// One file has all clusters of the topics, with the same slots, numbers and names, and another one that begins later. It has all of each, also
// if the control topic has lost its beginning.
func TestAMirrorHasAllClusters(t *testing.T) {
	for _, lost := range []float64{0, 0.5} {
		t.Run(fmt.Sprint(lost, " is lost"), func(t *testing.T) {
			t.Parallel()
			a := newTopics(t)
			b, late := a.sibling("b"), a.sibling("late")
			for range 40 {
				a.write(1, 1)
				b.write(1, 2)
			}
			b.ask(1)
			a.ask(2)
			if lost > 0 {
				a.remove("control", lost)
			}
			r := newMirrored(t, a.cfg)
			a.has(r)
			late.write(1, 30)
			a.write(1, 5)
			b.write(1, 5)
			a.has(r)
			for _, w := range []*topics{a, b, late} {
				mirrored := w.inFile(r.path)
				w.has(mirrored)
				retained, err := mirrored.Retained(t.Context(), nil)
				must(t, err)
				want := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(w.history))...)))
				got := w.logged(mirrored, time.Time{})
				if lost == 0 && !slices.Equal(want, got) || retained["pods"].Lost != "" || retained["pods"].Since.IsZero() != (lost == 0) {
					t.Errorf("the mirror has %d of the %d changes of %s: %v", len(got), len(want), w.cfg.Cluster, retained)
				}
				cut, err := mirrored.CutAt(t.Context(), time.Time{})
				must(t, err)
				if !maps.Equal(cut.Batches, sinks.Place{0: w.batch}) {
					t.Errorf("the mirror has %s up to %v, want batch %d", w.cfg.Cluster, cut.Batches, w.batch)
				}
				if full, inSpans := lastPositions(t, mirrored, false), lastPositions(t, mirrored, true); len(full) != 2 || !maps.Equal(full, inSpans) {
					t.Errorf("%s is at %v, and by spans at %v", w.cfg.Cluster, full, inSpans)
				}
			}
			for number, w := range []*topics{late, b, a} {
				asked, coverage := users(t, w.inFile(r.path))
				id := audit.ID{5: byte(number)}
				var want audit.Coverage
				if number > 0 {
					want.Add(id)
				}
				if number > 0 != slices.Equal(asked, []string{"user of " + w.cfg.Cluster}) || coverage != want {
					t.Errorf("%v asked about %s, %v", asked, w.cfg.Cluster, coverage)
				}
			}
		})
	}
}
