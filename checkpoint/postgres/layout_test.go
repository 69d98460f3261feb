package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/test/servers"
)

func TestAProcessOfTheOldLayoutIsToldSo(t *testing.T) {
	url := servers.Database(t)
	old, changer := openBound(t, url), openBound(t, url)
	adopt(t, old, 1)
	adopt(t, changer, 1)
	state, err := changer.Acquire(t.Context(), 0, "b", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := resize(t, changer, 1, 4, map[int]checkpoint.SlotState{0: state}); err != nil {
		t.Fatal(err)
	}
	_, acquired := old.Acquire(t.Context(), 0, "a", time.Minute)
	_, beat := old.Heartbeat(t.Context(), "a", time.Minute)
	for _, err := range []error{acquired, beat} {
		var other *checkpoint.LayoutError
		if !errors.As(err, &other) || other.Want.Slots != 1 || other.Have.Slots != 4 {
			t.Errorf("error is %v", err)
		}
	}
}

// Processes of an earlier version know of no split. They speak to the database by the functions of their time.
func TestAProcessOfAnEarlierVersionGetsNoSlotWhileThereIsASplit(t *testing.T) {
	url := servers.Database(t)
	store := openBound(t, url)
	adopt(t, store, 1)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "set search_path to kubecdc"); err != nil {
		t.Fatal(err)
	}
	earlier := func() (slots int, answer string) {
		const take = `select count(*) from kubecdc.take_slot(1, 0, 'earlier', '0s', 1)`
		const resize = `select kubecdc.resize(1, 1, 1, '{0}', (select array_agg(epoch) from kubecdc.slots))`
		if err := errors.Join(conn.QueryRow(t.Context(), take).Scan(&slots), conn.QueryRow(t.Context(), resize).Scan(&answer)); err != nil {
			t.Fatal(err)
		}
		return slots, answer
	}
	if slots, answer := earlier(); slots != 1 || answer != "ok" {
		t.Errorf("without a split it gets %d slots, and %q", slots, answer)
	}
	state, err := store.Acquire(t.Context(), 0, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Relayout(t.Context(), checkpoint.Relayout{From: checkpoint.NewLayout(1, nil), To: checkpoint.NewLayout(1, []string{"pods@a"}),
		Slots: map[int]checkpoint.SlotState{0: state}})
	if err != nil {
		t.Fatal(err)
	}
	if slots, answer := earlier(); slots != 0 || answer != "layout" {
		t.Errorf("it gets %d slots, and %q", slots, answer)
	}
}

// Of those who change the layout and those who go on with the old one, only one kind has its way: whoever acquires a
// slot of the old layout has it before the change, which then fails, or not at all.
func TestALayoutNeverChangesUnderAnOwner(t *testing.T) {
	url := servers.Database(t)
	for round := range 20 {
		from, to := 1+round%2, 2-round%2
		stay, changer := openBound(t, url), openBound(t, url)
		adopt(t, stay, from)
		adopt(t, changer, from)
		slots := map[int]checkpoint.SlotState{}
		for n := range from {
			state, err := changer.Acquire(t.Context(), n, fmt.Sprint("changer", round), 0)
			if err != nil {
				t.Fatal(err)
			}
			slots[n] = state
		}
		var stayed, changed atomic.Bool
		var both sync.WaitGroup
		both.Go(func() {
			_, err := stay.Acquire(t.Context(), 0, fmt.Sprint("stay", round), 0)
			stayed.Store(err == nil)
		})
		both.Go(func() { changed.Store(resize(t, changer, from, to, slots) == nil) })
		both.Wait()
		if stayed.Load() == changed.Load() {
			t.Fatalf("round %d: slot acquired %v, layout changed %v", round, stayed.Load(), changed.Load())
		}
		if stayed.Load() { // go on from the layout that the next round expects
			adopt(t, changer, from)
			state, err := changer.Acquire(t.Context(), 0, "c", 0)
			if err != nil {
				t.Fatal(err)
			}
			slots[0] = state
			if err := resize(t, changer, from, to, slots); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func adopt(t *testing.T, store checkpoint.Store, slots int) {
	t.Helper()
	want := checkpoint.NewLayout(slots, nil)
	if have, err := store.Layout(t.Context(), want); err != nil || have != want {
		t.Fatalf("layout is %s, error %v", have, err)
	}
}

func resize(t *testing.T, store checkpoint.Store, from, to int, slots map[int]checkpoint.SlotState) error {
	return store.Relayout(t.Context(), checkpoint.Relayout{From: checkpoint.NewLayout(from, nil), To: checkpoint.NewLayout(to, nil), Slots: slots})
}
