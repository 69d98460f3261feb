package resharding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/ownership"
)

const lease = 10 * time.Second

// world is a checkpoint with a number of slots, the other live replicas, and the steps that were done.
type world struct {
	slots   int
	others  map[string]time.Time // expiry of their heartbeats
	used    int                  // the slots below this number have been used by some layout
	fail    map[string]int       // step → how often it fails
	steps   []string
	open    int
	standby []string
	stored  checkpoint.Relayout
	shared  []map[int]int64 // by slot, its checkpoint's offset in a topic that all slots write to
	begun   change.Offsets  // offsets with which the last slot began
}

func (w *world) step(name string) error {
	w.steps = append(w.steps, name)
	if w.fail[name] == 0 {
		return nil
	}
	w.fail[name]--
	return fmt.Errorf("%s fails", name)
}

func (w *world) Slots(context.Context, int) (int, error) { return w.slots, nil }

func (w *world) Heartbeat(_ context.Context, owner string, ttl time.Duration) (checkpoint.Replicas, error) {
	if ttl != 0 {
		return checkpoint.Replicas{}, errors.New("the heartbeat has a lifetime")
	}
	r := checkpoint.Replicas{Members: []string{owner}}
	for other, until := range w.others {
		if time.Now().Before(until) {
			r.Members = append(r.Members, other)
		}
	}
	slices.Sort(r.Members)
	return r, nil
}

func (w *world) Relayout(_ context.Context, r checkpoint.Relayout) error {
	if err := w.step("store"); err != nil {
		return err
	}
	w.slots, w.stored = r.To, r
	return nil
}

func (w *world) ReplicaStatus(s ownership.Status) {
	if s.Standby != "" {
		w.standby = append(w.standby, fmt.Sprint(s.Replicas, " ", s.Standby))
	}
}

func (w *world) Problem(int, error) {}

func (w *world) resharder(slots int) *Resharder {
	return &Resharder{Slots: slots, Owner: "me", Lease: lease, Timeout: lease, Topology: w, Observer: w, Logger: slog.New(slog.DiscardHandler),
		Acquire: func(_ context.Context, n, layout int) (Slot, error) {
			if layout != w.slots {
				return nil, fmt.Errorf("slot %d is acquired in a layout of %d", n, layout)
			}
			if err := w.step(fmt.Sprint("acquire ", n)); err != nil {
				return nil, err
			}
			w.open++
			return &testSlot{world: w, n: n}, nil
		},
		IsFinal: func(err error) bool { return strings.Contains(err.Error(), "final") },
	}
}

// testSlot has written n records to its own partition if it is slot n and has been used, and to one that it shares.
type testSlot struct {
	*world
	n int
}

func (s *testSlot) State() checkpoint.SlotState {
	offsets := change.Offsets{"topic": {s.n: int64(s.n)}}
	if s.n < len(s.shared) {
		offsets.Merge(change.Offsets{"shared": s.shared[s.n]})
	}
	return checkpoint.SlotState{Epoch: 7, New: s.n >= s.used, Offsets: offsets}
}

func (s *testSlot) Open(_ context.Context, unused bool, _ context.CancelCauseFunc) error {
	if unused {
		return s.step(fmt.Sprint("open unused ", s.n))
	}
	return s.step(fmt.Sprint("open ", s.n))
}

func (s *testSlot) Begin(_ context.Context, record change.Control, offsets change.Offsets) error {
	s.begun = offsets
	return s.step(fmt.Sprintf("begin %d: %s, %s, after %v", s.n, record.Type, record.Cause, slices.Sorted(maps.Keys(offsets["topic"]))))
}

func (s *testSlot) Close() { s.world.open-- }

// Every slot of both layouts is acquired before anything is written. A slot that only an earlier layout used is opened as unused.
// Each slot of the new layout begins with the offsets of all old ones.
func TestTheStepsOfAChange(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, used int
		want           []string
	}{
		"the same": {from: 2, to: 2, used: 2},
		"more": {1, 2, 1, []string{"acquire 0", "open 0", "acquire 1", "open 1",
			"begin 0: layout, KUBECDC_SLOTS was 1 and is 2, after [0]", "begin 1: layout, KUBECDC_SLOTS was 1 and is 2, after [0]", "store"}},
		"more, as once before": {1, 2, 2, []string{"acquire 0", "open 0", "acquire 1", "open unused 1",
			"begin 0: layout, KUBECDC_SLOTS was 1 and is 2, after [0]", "begin 1: layout, KUBECDC_SLOTS was 1 and is 2, after [0]", "store"}},
		"fewer": {3, 1, 3, []string{"acquire 0", "open 0", "acquire 1", "open 1", "acquire 2", "open 2",
			"begin 0: layout, KUBECDC_SLOTS was 3 and is 1, after [0 1 2]", "store"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{slots: test.from, used: test.used}
			if err := w.resharder(test.to).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(w.steps, test.want) {
				t.Errorf("steps are\n%s\nwant\n%s", strings.Join(w.steps, "\n"), strings.Join(test.want, "\n"))
			}
			if w.slots != test.to || w.open != 0 {
				t.Errorf("the checkpoint has %d slots, %d are held", w.slots, w.open)
			}
			if want := max(test.from, test.to); len(w.steps) > 0 && (len(w.stored.Slots) != want || w.stored.Slots[want-1].Epoch != 7) {
				t.Errorf("the states given are %v", w.stored.Slots)
			}
		})
	}
}

// Slots are opened one after another. Only an earlier slot's checkpoint can show what the topic has lost in between, so its end
// and its id count.
func TestALossBetweenTwoSlotsIsNotHidden(t *testing.T) {
	for name, test := range map[string]struct {
		slots []map[int]int64
		want  map[int]int64
	}{
		"the first slot was ahead": {[]map[int]int64{{0: 12}, {0: 10}}, map[int]int64{0: 12}},
		"the last slot was ahead":  {[]map[int]int64{{0: 10}, {0: 12}}, map[int]int64{0: 12}},
		"made again in between": {[]map[int]int64{{0: 12, change.TopicID: -7}, {0: 0, change.TopicID: -9}},
			map[int]int64{0: 12, change.TopicID: -7}},
		"only the last has an id": {[]map[int]int64{{0: 12}, {0: 12, change.TopicID: -9}}, map[int]int64{0: 12, change.TopicID: -9}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{slots: 2, used: 2, shared: test.slots}
			if err := w.resharder(1).Run(t.Context()); err != nil || !maps.Equal(w.begun["shared"], test.want) {
				t.Errorf("the slot begins with %v, %v, and should with %v", w.begun["shared"], err, test.want)
			}
		})
	}
}

// If any step fails, the number of slots remains, the slots are released, and the next attempt starts from the first step.
func TestAFailedChangeStartsAgain(t *testing.T) {
	first := &world{slots: 2, used: 2}
	if err := first.resharder(3).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, step := range first.steps {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{slots: 2, used: 2, fail: map[string]int{step: 1}}
				r := w.resharder(3)
				if err := (&layoutChange{Resharder: r, from: 2, to: 3}).run(t.Context()); err == nil || w.slots != 2 || w.open != 0 {
					t.Errorf("error %v, %d slots, of which %d are held", err, w.slots, w.open)
				}
				if !slices.Equal(w.steps, first.steps[:i+1]) {
					t.Errorf("it goes on after %q: %q", step, w.steps)
				}
				w.steps, w.fail[step] = nil, 3
				began := time.Now()
				if err := r.Run(t.Context()); err != nil || w.slots != 3 || w.open != 0 {
					t.Errorf("error %v, %d slots, of which %d are held", err, w.slots, w.open)
				}
				if took := time.Since(began); took < lease/10 || took > 4*lease {
					t.Errorf("three attempts more took %s", took)
				}
			})
		})
	}
}

// The change waits until the last replica with the other number has stopped, and then takes at most a quarter of a lease.
func TestItWaitsForRunningReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := time.Now().Add(2 * time.Hour)
		w := &world{slots: 1, used: 1, others: map[string]time.Time{"a": ended, "b": time.Now().Add(time.Hour)}}
		if err := w.resharder(4).Run(t.Context()); err != nil || w.slots != 4 {
			t.Errorf("error %v, %d slots", err, w.slots)
		}
		if took := time.Since(ended); took < 0 || took > lease/4 {
			t.Errorf("it took %s", took)
		}
		if first, last := w.standby[0], w.standby[len(w.standby)-1]; !strings.HasPrefix(first, `2 KUBECDC_SLOTS is 4 here, but 1 in the running replicas (["a" "b"])`) ||
			!strings.HasPrefix(last, `1 KUBECDC_SLOTS is 4 here, but 1 in the running replicas (["a"])`) {
			t.Errorf("standby is first %q, last %q", first, last)
		}
	})
}

// Run returns when the context ends, and with an error that is final.
func TestItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := (&world{slots: 1, others: map[string]time.Time{"a": time.Now().Add(time.Hour)}}).resharder(4).Run(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("error %v", err)
		}
		w := &world{slots: 1, used: 1}
		r := w.resharder(2)
		r.Acquire = func(context.Context, int, int) (Slot, error) { return nil, errors.New("final") }
		if err := r.Run(t.Context()); err == nil || w.slots != 1 {
			t.Errorf("error %v, %d slots", err, w.slots)
		}
	})
}
