package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

func TestAProcessOfTheOldLayoutGetsLayoutError(t *testing.T) {
	url := servers.Database(t)
	old, changer := openBound(t, url), openBound(t, url)
	adopt(t, old, 1)
	adopt(t, changer, 1)
	state, err := changer.Acquire(t.Context(), 0, "b", 0)
	must(t, err)
	must(t, resize(t, changer, 1, 4, map[int]checkpoint.SlotState{0: state}))
	_, acquired := old.Acquire(t.Context(), 0, "a", time.Minute)
	_, beat := old.Heartbeat(t.Context(), "a", time.Minute)
	for _, err := range []error{acquired, beat} {
		var other *checkpoint.LayoutError
		if !errors.As(err, &other) || other.Want != 1 || other.Have != 4 {
			t.Errorf("error is %v", err)
		}
	}
}

// If processes change the layout while others go on with the old one, only one kind succeeds. An owner acquires a slot of the old
// layout before the change, which then fails, or not at all.
func TestALayoutNeverChangesUnderAnOwner(t *testing.T) {
	url := servers.Database(t)
	for round := range 20 {
		from, to := 1+round%2, 2-round%2
		goOn, changer := openBound(t, url), openBound(t, url)
		adopt(t, goOn, from)
		adopt(t, changer, from)
		slots := map[int]checkpoint.SlotState{}
		for n := range from {
			state, err := changer.Acquire(t.Context(), n, fmt.Sprint("changer", round), 0)
			must(t, err)
			slots[n] = state
		}
		var wentOn, changed atomic.Bool
		var both sync.WaitGroup
		both.Go(func() {
			_, err := goOn.Acquire(t.Context(), 0, fmt.Sprint("stay", round), 0)
			wentOn.Store(err == nil)
		})
		both.Go(func() { changed.Store(resize(t, changer, from, to, slots) == nil) })
		both.Wait()
		if wentOn.Load() == changed.Load() {
			t.Fatalf("round %d: slot acquired %v, layout changed %v", round, wentOn.Load(), changed.Load())
		}
		if wentOn.Load() { // go on with the layout that the next round expects
			adopt(t, changer, from)
			state, err := changer.Acquire(t.Context(), 0, "c", 0)
			must(t, err)
			slots[0] = state
			must(t, resize(t, changer, from, to, slots))
		}
	}
}

func adopt(t *testing.T, store checkpoint.Store, slots int) {
	t.Helper()
	if have, err := store.Slots(t.Context(), slots); err != nil || have != slots {
		t.Fatalf("there are %d slots, error %v", have, err)
	}
}

func resize(t *testing.T, store checkpoint.Store, from, to int, slots map[int]checkpoint.SlotState) error {
	return store.Relayout(t.Context(), checkpoint.Relayout{From: from, To: to, Slots: slots})
}

var must = require.NoError
