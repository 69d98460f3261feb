package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/sinks"
)

// deaf is a store that can't be asked.
type deaf struct{ checkpoint.Store }

func (deaf) Check(context.Context, int, int64, uint64) error { return errors.New("no route") }

// A process that is told to stop while it rolls forward or rebuilds has failed in nothing, whatever the database makes of it.
func TestWhatIsBrokenOffSaysWhy(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := newSlot(0, Config{LeaseDuration: time.Minute}, Parts{Logger: slog.New(slog.DiscardHandler)}, nil)
	err := s.whileRenewed(ctx, 1, func(context.Context) error {
		stop()
		return errors.New("sql: statement is closed")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// Who is fenced the checkpoint says, and not the sink.
func TestWhoIsFencedTheCheckpointSays(t *testing.T) {
	refused := fmt.Errorf("write batch 3: %w", sinks.ErrInvalidWriter)
	for _, test := range []struct {
		name   string
		happen func(t *testing.T, s *slot)
		err    error
		fenced bool
		says   string
	}{
		{"Kafka ended a transaction", func(*testing.T, *slot) {}, refused, false, "no other process has taken slot 0 over"},
		{"another owner", func(t *testing.T, s *slot) { take(t, s, "b") }, refused, true, "another process owns the slot"},
		{"another owner, says the checkpoint", func(t *testing.T, s *slot) { take(t, s, "b") }, checkpoint.ErrFenced, true, ""},
		{"a late request of this process", func(t *testing.T, s *slot) { take(t, s, "a") }, refused, false, "a request that was held up"},
		{"a late request, says the checkpoint", func(t *testing.T, s *slot) { take(t, s, "a") }, checkpoint.ErrFenced, false, "a request that was held up"},
		{"the checkpoint is away", func(_ *testing.T, s *slot) { s.parts.Store = deaf{s.parts.Store} }, refused, false, "no route"},
		{"something else", func(*testing.T, *slot) {}, errors.New("boom"), false, "boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := storeAt(t, 1)
			s := &slot{config: Config{Owner: "a", LeaseDuration: time.Minute}, parts: Parts{Store: store, Leases: store}}
			test.happen(t, s)
			err := s.verify(t.Context(), 1, test.err)
			if isFenced(err) != test.fenced || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// take acquires the slot as the owner.
func take(t *testing.T, s *slot, owner string) {
	t.Helper()
	if err := s.parts.Leases.Release(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.parts.Leases.Acquire(t.Context(), 0, owner, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// silent are leases whose first answer never comes, as on a connection that has lost its other end.
type silent struct {
	checkpoint.Leases
	asked int
}

func (l *silent) Acquire(ctx context.Context, slot int, _ string, _ time.Duration) (checkpoint.SlotState, error) {
	if l.asked++; l.asked == 1 {
		<-ctx.Done()
		return checkpoint.SlotState{}, ctx.Err()
	}
	return checkpoint.SlotState{}, &checkpoint.HeldError{Slot: slot}
}

func (quiet) Problem(int, error) {}

// A checkpoint that never answers is asked again.
func TestACheckpointThatNeverAnswersIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		leases := &silent{}
		s := newSlot(0, Config{LeaseDuration: time.Second}, Parts{Leases: leases, Observer: quiet{}, Logger: slog.New(slog.DiscardHandler)}, nil)
		if err := s.run(ctx); err != nil || leases.asked != 2 {
			t.Errorf("asked %d times, error %v", leases.asked, err)
		}
	})
}
