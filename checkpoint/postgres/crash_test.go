package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/postgres"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

func TestKillOfTheServerKeepsAllOfACommitOrNothing(t *testing.T) {
	t.Run("and every commit that was answered", func(t *testing.T) { killAndRead(t, false) })
	t.Run("and if relaxed, all before the last ones", func(t *testing.T) { killAndRead(t, true) })
}

func killAndRead(t *testing.T, relaxed bool) {
	servers.Need(t)
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	must(t, err)
	defer server.Stop()
	store, err := postgres.Open(t.Context(), postgres.Config{URL: server.URL, Relaxed: relaxed})
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	forgotten := 0
	for round := range 4 {
		state := checkpointtest.WantAtomic(t, store, "a")
		failed := make(chan error, 1)
		seq, started := state.Seq, make(chan struct{})
		go func() {
			for {
				if err := store.Commit(t.Context(), checkpointtest.StampedCommit(state.Epoch, seq+1)); err != nil {
					failed <- err
					return
				}
				if seq++; seq == state.Seq+3 {
					close(started)
				}
			}
		}()
		<-started
		time.Sleep(time.Duration(round) * 700 * time.Microsecond) // determines where in the commit the kill falls
		server.Kill()
		wantNoPassword(t, <-failed)
		_, err := store.Acquire(t.Context(), 0, "a", time.Minute)
		wantNoPassword(t, err)
		if err == nil || !strings.Contains(err.Error(), "is the database running") {
			t.Errorf("no hint in %v", err)
		}
		must(t, server.Start(t.Context()))
		if relaxed {
			forgotten += wantForgotten(t, store, state.Epoch, state.Seq, seq)
		}
		after := checkpointtest.WantAtomic(t, store, "a")
		if after.Seq > seq+1 || after.Seq < seq && !relaxed || after.Seq < state.Seq {
			t.Fatalf("the checkpoint is at batch %d; it was acquired at %d, %d were committed, and one more was on its way", after.Seq, state.Seq, seq)
		}
	}
	if relaxed && forgotten == 0 {
		t.Error("nothing was forgotten: was it relaxed?")
	}
}

// wantForgotten returns how many batches the server has forgotten, and demands that the owner's next call says so.
func wantForgotten(t *testing.T, store checkpoint.Store, epoch int64, acquired, committed uint64) int {
	t.Helper()
	err := store.Check(t.Context(), 0, epoch, committed)
	if err == nil {
		return 0
	}
	if !errors.Is(err, checkpoint.ErrBehind) {
		t.Fatal(err)
	}
	if err := store.Commit(t.Context(), checkpointtest.StampedCommit(epoch, committed+1)); !errors.Is(err, checkpoint.ErrBehind) {
		t.Fatalf("the next commit: %v", err)
	}
	for n := 1; committed > acquired; n, committed = n+1, committed-1 {
		if err := store.Check(t.Context(), 0, epoch, committed-1); err == nil {
			return n
		}
	}
	t.Fatalf("what was there when the slot was acquired (batch %d) is forgotten too", acquired)
	return 0
}

func wantNoPassword(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "secret-pw") {
		t.Fatalf("the password is in %v", err)
	}
}
