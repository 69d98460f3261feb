package postgres_test

import (
	"strings"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/test/servers"
)

func TestKillOfTheServerKeepsAllOfACommitOrNothing(t *testing.T) {
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	store := open(t, server.URL)
	defer store.Close()
	if err := store.Bind(t.Context(), "prod", "uid"); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		state := checkpointtest.WantNumbered(t, store, "a")
		failed := make(chan error, 1)
		seq, started := state.Seq, make(chan struct{})
		go func() {
			for {
				if err := store.Commit(t.Context(), checkpointtest.Numbered(state.Epoch, seq+1)); err != nil {
					failed <- err
					return
				}
				if seq++; seq == state.Seq+3 {
					close(started)
				}
			}
		}()
		<-started
		time.Sleep(time.Duration(round) * 700 * time.Microsecond) // chooses where in the commit the kill falls
		server.Kill()
		wantTransient(t, <-failed)
		_, err := store.Acquire(t.Context(), 0, "a", time.Minute)
		wantTransient(t, err)
		if !strings.Contains(checkpoint.Hint(err), "is the database running") {
			t.Errorf("no hint in %v", err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := checkpointtest.WantNumbered(t, store, "a")
		if after.Seq != seq && after.Seq != seq+1 {
			t.Fatalf("the checkpoint is at batch %d; %d were committed, and one more was on its way", after.Seq, seq)
		}
	}
}

func wantTransient(t *testing.T, err error) {
	t.Helper()
	if !checkpoint.Transient(err) {
		t.Fatalf("not transient: %v", err)
	}
	if strings.Contains(err.Error(), "secret-pw") {
		t.Fatalf("the password is in %v", err)
	}
}
