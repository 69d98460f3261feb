package inventory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
	"kubecdc/test/checkpointtest"
)

// However rolling forward is interrupted, the checkpoint is at the last batch that was read completely.
func TestAnInterruptedRollForwardEndsAtABatch(t *testing.T) {
	recorded, late := &sinks.LostTailError{TailRead: true, Reason: "a topic"}, &sinks.LostTailError{Reason: "the rest"}
	unread := errors.New("the broker is away")
	for name, test := range map[string]struct {
		stop   int                                // the batch before which it is interrupted
		fail   error                              // an error of the sink,
		meddle func(*testing.T, checkpoint.Store) // or interference by another owner
		want   error
		part   string
		loss   *sinks.LostTailError
	}{
		"the whole tail":                {stop: 5, loss: recorded},
		"the rest is lost":              {stop: 3, fail: late, loss: late},
		"the sink fails":                {stop: 2, fail: unread, want: unread, part: dependency.Sink},
		"another owner takes the slot":  {stop: 3, meddle: takeOver, want: checkpoint.ErrFenced, part: dependency.Checkpoint},
		"nothing can be read of it all": {stop: 1, fail: late, loss: late},
	} {
		t.Run(name, func(t *testing.T) {
			store := storeAt(t, 1)
			s := &Slot{Settings: plain(), Parts: quietParts(store)}
			state := checkpoint.SlotState{Epoch: 1, Seq: 1}
			loss, err := s.rollForward(t.Context(), &state, &sinks.Opened{Lost: recorded, Tail: func(_ context.Context, visit func(*sinks.Recovered) error) error {
				for n := 1; n <= 4; n++ {
					if n == test.stop && test.meddle != nil {
						test.meddle(t, store)
					} else if n == test.stop {
						return fmt.Errorf("read it: %w", test.fail)
					}
					if err := visit(tailOf(n)); err != nil {
						return err
					}
				}
				return nil
			}})
			if !errors.Is(err, test.want) || dependency.NameOf(err) != test.part || loss != test.loss {
				t.Errorf("loss %v, error %v of %q; want %v, %v of %q", loss, err, dependency.NameOf(err), test.loss, test.want, test.part)
			}
			if want := uint64(test.stop); state.Seq != want || state.Offsets["pods"][0] != int64(want)-1 {
				t.Errorf("the session goes on from batch %d, offsets %v; want batch %d", state.Seq, state.Offsets, want)
			}
			body := checkpointtest.Bodies(t, store, "pods", "ns/a")["ns/a"]
			if want := fmt.Sprintf(`"after batch %d"`, test.stop-1); test.stop > 1 && body != want {
				t.Errorf("the checkpoint has %s, want %s", body, want)
			}
		})
	}
}

// tailOf returns the nth batch after the checkpoint's.
func tailOf(n int) *sinks.Recovered {
	c := change.Change{Op: change.Update, Stream: pods, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: change.ResourceVersion(fmt.Sprint(10 + n)), After: fmt.Appendf(nil, `"after batch %d"`, n)}
	return &sinks.Recovered{Batch: change.Batch{Epoch: 1, Seq: uint64(n) + 1, Changes: []change.Change{c},
		Positions: []change.Position{{Stream: "pods", ResourceVersion: c.ResourceVersion, Time: time.Now()}}}, Offsets: change.Offsets{"pods": {0: int64(n)}}}
}

func takeOver(t *testing.T, store checkpoint.Store) {
	if _, err := store.Acquire(t.Context(), 0, "a", time.Minute); err != nil {
		t.Fatal(err)
	}
}
