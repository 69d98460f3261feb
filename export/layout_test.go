package export

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// forgetful does not note a slot's next batch, as if the process were killed before.
type forgetful struct {
	checkpoint.Store
	slot int
}

var errKilled = errors.New("killed")

func (f *forgetful) Commit(ctx context.Context, c checkpoint.Commit) error {
	if c.Slot == f.slot {
		f.slot = -1
		return errKilled
	}
	return f.Store.Commit(ctx, c)
}

func (quiet) Rebuilding(int, int64, int64)       {}
func (quiet) RollingForward(int, uint64, uint64) {}

// A slot that no stream belongs to has a tail where a change of the layout was killed between the log and the checkpoint.
func TestALayoutIsChangedThoughAnUnusedSlotHasATail(t *testing.T) {
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: servers.Database(t), Cluster: "prod", ClusterUID: "uid"})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	killed := &forgetful{store, -1}
	log := slog.New(slog.DiscardHandler)
	parts := Parts{Store: killed, Leases: store, Sink: sink, Observer: quiet{}, Log: log, reach: newReach(time.Minute, newStalls(quiet{}, log))}
	change := func(from, to int) error {
		config := Config{Cluster: "prod", Slots: to, Owner: "a", LeaseDuration: time.Minute}
		return (&relayout{config: config, parts: parts, from: from, to: to}).run(t.Context())
	}
	if _, err := store.Slots(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := change(2, 1); err != nil {
		t.Fatal(err)
	}
	killed.slot = 1
	if err := change(1, 2); !errors.Is(err, errKilled) {
		t.Fatalf("error is %v", err)
	}
	if err := change(1, 2); err != nil {
		t.Fatalf("the next process can't change it: %v", err)
	}
	if state, err := store.Acquire(t.Context(), 1, "a", time.Minute); err != nil || state.Seq != 2 {
		t.Errorf("the checkpoint of slot 1 is at batch %d, %v", state.Seq, err)
	}
}
