package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
)

// renewals is a store whose leases return the given errors one after another, and then the last one again and again.
type renewals struct {
	checkpoint.Store
	answers []error
	calls   int
}

func (l *renewals) Renew(context.Context, int, int64, time.Duration) error {
	n := min(l.calls, len(l.answers)-1)
	l.calls++
	return l.answers[n]
}

// A session ends at once when the checkpoint says that the slot has another owner. If the checkpoint does not answer, the session
// ends at most a third of the lease duration after its lease has expired. Correctness does not depend on that: the next owner
// fences it.
func TestASessionEndsWithItsLease(t *testing.T) {
	away := errors.New("no route")
	const ttl = 30 * time.Second
	for name, test := range map[string]struct {
		answers []error
		after   time.Duration // 0 if the session continues
		want    error
		server  string
	}{
		"renewed":             {answers: []error{nil}},
		"away for a moment":   {answers: []error{nil, away, away, nil}},
		"away for a lease":    {answers: []error{nil, away}, after: 50 * time.Second, want: away, server: dependency.Checkpoint},
		"away from the start": {answers: []error{away}, after: 40 * time.Second, want: away, server: dependency.Checkpoint},
		"taken over":          {answers: []error{nil, checkpoint.ErrFenced}, after: 20 * time.Second, want: checkpoint.ErrFenced},
		"forgotten":           {answers: []error{checkpoint.ErrBehind}, after: 10 * time.Second, want: checkpoint.ErrBehind},
		"another layout":      {answers: []error{&checkpoint.LayoutError{}}, after: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				s := &slot{Slot: plan.Slot{Config: plan.Config{LeaseDuration: ttl}, Parts: &plan.Watched{Parts: plan.Parts{Store: &renewals{answers: test.answers}}}}}
				began, failed := time.Now(), error(nil)
				s.renew(ctx, 1, func(err error) { failed = err })
				took := time.Since(began)
				if goesOn := test.after == 0; goesOn && (failed != nil || took != time.Hour) || !goesOn && (failed == nil || took != test.after) {
					t.Errorf("after %s: %v", took, failed)
				}
				if test.want != nil && !errors.Is(failed, test.want) || dependency.NameOf(failed) != test.server {
					t.Errorf("error %v, of %q", failed, dependency.NameOf(failed))
				}
			})
		})
	}
}
