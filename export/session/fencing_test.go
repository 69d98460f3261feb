package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/plan"
	"kubecdc/sinks"
	"kubecdc/test/exporttest"
)

// unreachable is a store whose Check fails.
type unreachable struct{ checkpoint.Store }

func (unreachable) Check(context.Context, int, int64, uint64) error { return errors.New("no route") }

// A process that is stopped while it rolls forward or rebuilds reports the stop, whatever error the database returns.
func TestAnInterruptionIsReportedAsSuch(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := newSlot(0, plan.Config{LeaseDuration: time.Minute}, exporttest.Parts(nil), nil)
	_, err := whileRenewed(ctx, s, 1, func(context.Context) (int, error) {
		stop()
		return 0, errors.New("sql: statement is closed")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// Only the checkpoint decides whether a session was fenced by another process.
func TestOnlyTheCheckpointDecidesWhoIsFenced(t *testing.T) {
	refused := fmt.Errorf("write batch 3: %w", sinks.ErrInvalidWriter)
	for _, test := range []struct {
		name    string
		arrange func(t *testing.T, s *slot)
		err     error
		fenced  bool
		text    string
	}{
		{"Kafka ended a transaction", func(*testing.T, *slot) {}, refused, false, "no other process has taken over slot 0"},
		{"another owner", func(t *testing.T, s *slot) { acquireAs(t, s, "b") }, refused, true, "another process owns the slot"},
		{"another owner, found by the checkpoint", func(t *testing.T, s *slot) { acquireAs(t, s, "b") }, checkpoint.ErrFenced, true, ""},
		{"a delayed request of this process", func(t *testing.T, s *slot) { acquireAs(t, s, "a") }, refused, false, "by a delayed request"},
		{"a delayed request, found by the checkpoint", func(t *testing.T, s *slot) { acquireAs(t, s, "a") }, checkpoint.ErrFenced, false, "by a delayed request"},
		{"the checkpoint is unreachable", func(_ *testing.T, s *slot) { s.Parts.Store = unreachable{s.Parts.Store} }, refused, false, "no route"},
		{"damage", func(*testing.T, *slot) {}, checkpoint.ErrDamaged, false, "damaged"},
		{"a body of another owner", func(t *testing.T, s *slot) { acquireAs(t, s, "b") }, checkpoint.ErrDamaged, true, "another owner's"},
		{"a body, and the checkpoint is unreachable", func(_ *testing.T, s *slot) { s.Parts.Store = unreachable{s.Parts.Store} }, checkpoint.ErrDamaged, false, "no route"},
		{"something else", func(*testing.T, *slot) {}, errors.New("boom"), false, "boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := exporttest.Owned(t)
			s := &slot{Slot: plan.Slot{Config: plan.Config{Owner: "a", LeaseDuration: time.Minute}, Parts: &plan.Watched{Parts: plan.Parts{Store: store}}}}
			test.arrange(t, s)
			err := s.verifyFencing(t.Context(), 1, test.err)
			if isFenced(err) != test.fenced || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error is %v", err)
			}
			if damaged := test.name == "damage"; errors.Is(err, checkpoint.ErrDamaged) != damaged {
				t.Errorf("the checkpoint is taken for damaged: %v", err)
			}
		})
	}
}

// acquireAs releases the slot, and acquires it as the given owner.
func acquireAs(t *testing.T, s *slot, owner string) {
	t.Helper()
	mustDo(t, s.Parts.Store.Release(t.Context(), 0, 1))
	if _, err := s.Parts.Store.Acquire(t.Context(), 0, owner, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// silent never answers the first call, as on a connection whose other end has vanished.
type silent struct {
	checkpoint.Store
	calls int
}

func (l *silent) Acquire(ctx context.Context, slot int, _ string, _ time.Duration) (checkpoint.SlotState, error) {
	if l.calls++; l.calls == 1 {
		<-ctx.Done()
		return checkpoint.SlotState{}, ctx.Err()
	}
	return checkpoint.SlotState{}, &checkpoint.HeldError{Slot: slot}
}

// A call to a checkpoint that never answers times out, and the next session calls again.
func TestACallToASilentCheckpointTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		store := &silent{}
		s := newSlot(0, plan.Config{LeaseDuration: time.Second}, exporttest.Parts(store), nil)
		if err := s.run(ctx); err != nil || store.calls != 2 {
			t.Errorf("%d calls, error %v", store.calls, err)
		}
	})
}
