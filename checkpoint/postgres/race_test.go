package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

func openBound(t *testing.T, url string) *postgres.Store {
	t.Helper()
	store := open(t, url)
	t.Cleanup(store.Close)
	checkpointtest.Bind(t, store, "prod", "uid")
	return store
}

func TestOfManyOwnersAtOnceOneGetsTheSlot(t *testing.T) {
	url := servers.Database(t)
	var got, held atomic.Int32
	var all sync.WaitGroup
	for i := range 6 { // at once, while they also create the schema
		all.Go(func() {
			store := openBound(t, url)
			var h *checkpoint.HeldError
			switch _, err := store.Acquire(t.Context(), 0, fmt.Sprint(i), time.Minute); {
			case err == nil:
				got.Add(1)
			case errors.As(err, &h):
				held.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 || held.Load() != 5 {
		t.Fatalf("%d acquired it, %d got the error that it is held", got.Load(), held.Load())
	}
}

// Owners whose leases expire at once fence each other all the time. The log of batches must have no hole, no repetition, and no
// part of a fenced batch.
func TestOwnersThatFenceEachOtherNeverMix(t *testing.T) {
	url := servers.Database(t)
	var committed, fenced atomic.Int32
	var all sync.WaitGroup
	for i := range 3 {
		store := openBound(t, url)
		all.Go(func() {
			for committed.Load() < 150 && !t.Failed() {
				err := commitUntilFenced(t, store, fmt.Sprint(i), &committed)
				if errors.Is(err, checkpoint.ErrFenced) {
					fenced.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	state := checkpointtest.WantAtomic(t, openBound(t, url), "judge")
	if int32(state.Seq) != committed.Load() || fenced.Load() < 3 {
		t.Fatalf("the checkpoint is at batch %d, %d were committed, %d times fenced", state.Seq, committed.Load(), fenced.Load())
	}
}

func commitUntilFenced(t *testing.T, store checkpoint.Store, owner string, committed *atomic.Int32) error {
	state, err := store.Acquire(t.Context(), 0, owner, 0)
	for seq := state.Seq + 1; err == nil && committed.Load() < 150; seq++ {
		if err = store.Commit(t.Context(), checkpointtest.StampedCommit(state.Epoch, seq)); err == nil {
			committed.Add(1)
		}
	}
	return err
}
