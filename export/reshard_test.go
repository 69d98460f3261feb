package export

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/internal/startup"
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
func (quiet) ReplicaStatus(ownership.Status)     {}

// relaid is what a process has that changes the number of slots of a log in Postgres.
func relaid(t *testing.T, slots int) Parts { return relaidIn(t, servers.Database(t), slots) }

func relaidIn(t *testing.T, url string, slots int) Parts {
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: "prod", ClusterUID: "uid"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Close() })
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	checkpointtest.Bind(t, store, "prod", "uid")
	if _, err := store.Slots(t.Context(), slots); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	watchdog := dependency.NewWatchdog(quiet{}, log)
	return Parts{Store: store, Leases: store, Sink: sink, Observer: quiet{}, Logger: log, watchdog: watchdog,
		reachability: ownership.NewReachability(time.Minute, watchdog)}
}

func relaidTo(slots int) Config {
	return Config{Cluster: "prod", Slots: slots, Owner: "a", LeaseDuration: 2 * time.Second}
}

// A slot that no stream belongs to has a tail where a change of the number of slots was killed between the log and the checkpoint.
func TestSlotsAreChangedThoughAnUnusedOneHasATail(t *testing.T) {
	parts := relaid(t, 2)
	killed := &forgetful{parts.Store, -1}
	parts.Store = killed
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for _, slots := range []int{1, 2} {
		if slots == 2 {
			killed.slot = 1 // so the first attempt fails
		}
		if err := newResharder(relaidTo(slots), parts).Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if killed.slot != -1 {
		t.Fatal("nothing was killed")
	}
	if state, err := parts.Leases.Acquire(t.Context(), 1, "a", time.Minute); err != nil || state.Seq != 2 {
		t.Errorf("the checkpoint of slot 1 is at batch %d, %v", state.Seq, err)
	}
}

// The limit of the start is for servers: who waits for replicas of another layout has started.
func TestAStartWaitsForAnotherLayoutBeyondItsLimit(t *testing.T) {
	parts := relaid(t, 1)
	limit := 100 * time.Millisecond
	parts.Start = startup.New(parts.Logger, limit, func(error) {})
	if _, err := parts.Leases.Heartbeat(t.Context(), "b", 2*limit); err != nil {
		t.Fatal(err)
	}
	if err := newResharder(relaidTo(2), parts).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := firstHeartbeat(t.Context(), relaidTo(2), parts); err != nil {
		t.Error(err)
	}
}

// statuses notes how a replica says that it stands, and what it is stuck on.
type statuses struct {
	quiet
	said []string
	told func()
}

func (s *statuses) ReplicaStatus(st ownership.Status) {
	s.said = append(s.said, "standby: "+st.Standby)
}

func (s *statuses) Problem(_ int, err error) {
	if err != nil {
		s.said = append(s.said, "problem: "+err.Error())
		s.told()
	}
}

// Once the replicas of the other layout have ended, one that can't change it stands by no more: it is stuck.
func TestWhatKeepsALayoutFromBeingChangedIsTold(t *testing.T) {
	parts := relaid(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := &statuses{told: stop}
	parts.Observer = seen
	if _, err := parts.Leases.Heartbeat(t.Context(), "b", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	parts.Sink.Close()
	if err := newResharder(relaidTo(2), parts).Run(ctx); err != nil {
		t.Fatal(err)
	}
	n := len(seen.said)
	if n < 3 || !strings.Contains(seen.said[0], "KUBECDC_SLOTS is 2 here, but 1") || seen.said[n-2] != "standby: " || !strings.Contains(seen.said[n-1], "change the number of slots: open the log of slot 0") {
		t.Errorf("told %q", seen.said)
	}
}
