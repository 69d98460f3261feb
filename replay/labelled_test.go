package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/replay"
	"kubecdc/sinks"
)

// In a log without before-images (KUBECDC_BEFORE=none), a replay by labels has each delete, and the update that removes the
// labels. Interruptions change nothing. In a log with before-images, it has no delete of other objects.
func TestAReplayByLabelsLeavesNoObjectBehind(t *testing.T) {
	stub, err := change.Stub([]byte(`{"metadata":{"name":"huge","uid":"u","resourceVersion":"1"}}`))
	check(t, err)
	web, db := `{"metadata":{"labels":{"app":"web"}}}`, `{"metadata":{"labels":{"app":"db"}}}`
	steps := []struct {
		object, op, before, after string
		full, none                bool // what is written with before-images, and without
	}{
		{"stays", "c", "", web, true, true}, {"other", "c", "", db, false, false}, {"leaves", "c", "", web, true, true},
		{"leaves", "u", web, db, true, true}, {"leaves", "u", db, db, false, false}, {"comes", "u", db, web, true, true},
		{"leaves", "d", db, "", false, true}, {"other", "d", db, "", false, true}, {"stays", "d", web, "", true, true},
		{"huge", "r", "", string(stub), true, true}, {"huge", "d", string(stub), "", true, true}, {"unseen", "d", web, "", true, true},
	}
	for _, full := range []bool{true, false} {
		t.Run(fmt.Sprint("before images: ", full), func(t *testing.T) {
			from, want := &log{}, []string(nil)
			for round := range 2000 {
				for i, s := range steps {
					l := logged("k8s.pods", int64(len(from.changes)*2), 0, uint64(round), i)
					l.Op, _ = change.ParseOp(s.op)
					l.Name = fmt.Sprint(s.object, round)
					if l.After = []byte(s.after); s.after == "" {
						l.After = nil
					}
					if l.Before = []byte(s.before); s.before == "" || !full {
						l.Before = nil
					}
					from.changes = append(from.changes, l)
					if full && s.full || !full && s.none {
						want = append(want, id(&l))
					}
				}
			}
			plan := &replay.Plan{ID: "one", Filter: replay.Filter{Objects: sinks.Objects{Selector: "app=web"}},
				To: replay.Bound{Cut: &sinks.Cut{}}}
			if err := plan.Count(t.Context(), from, nil); err != nil || plan.Records() != int64(len(want)) {
				t.Errorf("the plan has %d changes, want %d (%v)", plan.Records(), len(want), err)
			}
			to := &place{}
			for resume, err := false, errKilled; errors.Is(err, errKilled); resume = true {
				r := &replay.Run{Plan: plan, Log: from, Target: to}
				begun := r.Begin
				if resume {
					begun = func(ctx context.Context) error { return r.Resume(ctx, "one") }
				}
				check(t, begun(t.Context()))
				if err = nil; !r.Ended() {
					err = r.Do(t.Context())
				}
			}
			if !slices.Equal(to.changes, want) {
				first := strings.Join(to.changes[:min(12, len(to.changes))], "\n")
				t.Errorf("%d changes are written of %d; the first are\n%s", len(to.changes), len(want), first)
			}
		})
	}
}
