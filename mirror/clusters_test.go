package mirror_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/mirror"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
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

// positions returns each stream's last version after each batch record that is visited.
func positions(t *testing.T, r sinks.Reader, inSpans bool) (batches []uint64, after map[uint64]string) {
	t.Helper()
	last, after := map[change.StreamID]change.ResourceVersion{}, map[uint64]string{}
	must(t, r.Controls(t.Context(), time.Time{}, func(*sinks.Span) bool { return !inSpans }, func(c *change.Control) error {
		for _, p := range c.Positions {
			last[p.Stream] = p.ResourceVersion
		}
		batches, after[c.Batch] = append(batches, c.Batch), fmt.Sprint(last)
		return nil
	}))
	return batches, after
}

// slow is a log in which each batch comes a quarter of a second after the one before.
type slow struct {
	sinks.Copier
	clock time.Time
}

func (l *slow) Copy(ctx context.Context, after sinks.Cut, visit func([]sinks.Copied, sinks.Cut) error) error {
	return l.Copier.Copy(ctx, after, func(batches []sinks.Copied, end sinks.Cut) error {
		for i := range batches {
			l.clock = l.clock.Add(time.Second / 4)
			batches[i].Logged = l.clock
		}
		return visit(batches, end)
	})
}

// One file has all clusters of the topics, with the same slots, numbers and names, and another one that begins later. It has all of each, also
// if the control topic or a data topic has lost its beginning.
func TestAMirrorHasAllClusters(t *testing.T) {
	for name, tc := range map[string]struct{ lost, delivery string }{"all": {}, "control": {"control", ""}, "control, without transactions": {"control", kafka.AtLeastOnce},
		"pods": {"pods", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newTopics(t)
			first.cfg.Delivery = tc.delivery
			a, b := first.sibling("a"), first.sibling("b")
			for i := range 150 {
				if a.write(1, 1); i%10 == 9 {
					b.write(1, 1)
				}
			}
			b.ask(1)
			a.ask(2)
			if tc.lost != "" {
				a.remove(tc.lost, 0.3)
			}
			from, err := kafka.OpenReader(t.Context(), a.cfg)
			must(t, err)
			path := filepath.Join(t.TempDir(), "topics.mirror")
			m, err := mirror.Open(t.Context(), &slow{from, time.Now()}, mirror.Options{Path: path, History: sinks.Forever, Logger: a.cfg.Logger})
			must(t, err)
			defer m.Close()
			must(t, m.Update(t.Context()))
			late := first.sibling("late")
			late.write(1, 30)
			a.write(1, 5)
			b.write(1, 5)
			must(t, m.Update(t.Context()))
			for _, w := range []*topics{a, b, late} {
				w.isMirrored(path, tc.lost)
			}
			for number, w := range []*topics{late, b, a} {
				asked, coverage := users(t, w.inFile(path))
				var want audit.Coverage
				if number > 0 {
					want.Add(audit.ID{5: byte(number)})
				}
				if number > 0 != slices.Equal(asked, []string{"user of " + w.cfg.Cluster}) || coverage != want {
					t.Errorf("%v asked about %s, %v", asked, w.cfg.Cluster, coverage)
				}
			}
		})
	}
}

// isMirrored compares a mirror with what was written.
func (w *topics) isMirrored(path, lost string) {
	w.t.Helper()
	r := w.inFile(path)
	retained, err := r.Retained(w.t.Context(), nil)
	must(w.t, err)
	if isLost := lost == "pods" && w.cfg.Cluster != "late"; isLost != (retained["pods"].Lost != "") || retained["configmaps"].Lost != "" {
		w.t.Errorf("%s has lost %v", w.cfg.Cluster, retained)
	}
	cut, err := r.CutAt(w.t.Context(), time.Time{})
	must(w.t, err)
	if !maps.Equal(cut.Batches, sinks.Place{0: w.batch}) {
		w.t.Errorf("the mirror has %s up to %v, want batch %d", w.cfg.Cluster, cut.Batches, w.batch)
	}
	batches, full := positions(w.t, r, false)
	few, inSpans := positions(w.t, r, true)
	for _, batch := range few {
		if inSpans[batch] != full[batch] {
			w.t.Errorf("%s is at %s at batch %d, and by spans at %s", w.cfg.Cluster, full[batch], batch, inSpans[batch])
		}
	}
	if w.batch > 30 && len(few) > len(batches)-20 {
		w.t.Errorf("%s has no spans: %d of %d batches", w.cfg.Cluster, len(few), len(batches))
	}
	if lost == "pods" {
		return
	}
	w.has(r)
	var want []string
	for batch := batches[0]; batch <= w.batch; batch++ {
		want = append(want, w.history[batch]...)
	}
	slices.Sort(want)
	if got := w.logged(r, time.Time{}); !slices.Equal(want, got) || lost == "" && batches[0] != 1 {
		w.t.Errorf("the mirror has %d changes of %s since batch %d, want %d", len(got), w.cfg.Cluster, batches[0], len(want))
	}
	must(w.t, r.Changes(w.t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		if number, err := strconv.Atoi(string(l.ResourceVersion)); err != nil || l.Batch == 0 && number > w.upTo[batches[0]-1] {
			w.t.Errorf("change %d of %s is before batch %d", number, w.cfg.Cluster, batches[0])
		}
		return nil
	}))
}
