package export

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
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

// killedAtCommit fails a slot's next commit, as if the process were killed before it.
type killedAtCommit struct {
	checkpoint.Store
	slot int
}

var errKilled = errors.New("killed")

func (f *killedAtCommit) Commit(ctx context.Context, c checkpoint.Commit) error {
	if c.Slot == f.slot {
		f.slot = -1
		return errKilled
	}
	return f.Store.Commit(ctx, c)
}

func (quiet) Rebuilding(int, int64, int64)       {}
func (quiet) RollingForward(int, uint64, uint64) {}
func (quiet) ReplicaStatus(ownership.Status)     {}
func (quiet) CheckpointSize(int64)               {}
func (quiet) SlotStreams(int, []change.Position) {}

// partsFor are the parts of an exporter with a log in Postgres.
func partsFor(t *testing.T, slots int) Parts { return partsIn(t, servers.Database(t), slots) }

func partsIn(t *testing.T, url string, slots int) Parts {
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
		reachability: ownership.NewReachability(time.Minute, dependency.Sink, watchdog)}
}

func configFor(slots int) Config {
	return Config{Cluster: "prod", Slots: slots, Owner: "a", LeaseDuration: 2 * time.Second}
}

// An unused slot has a tail if an earlier layout change was killed between the log and the checkpoint.
func TestTheLayoutChangesThoughAnUnusedSlotHasATail(t *testing.T) {
	parts := partsFor(t, 2)
	killed := &killedAtCommit{parts.Store, -1}
	parts.Store = killed
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for _, slots := range []int{1, 2} {
		if slots == 2 {
			killed.slot = 1 // the first attempt fails
		}
		if err := newResharder(configFor(slots), parts).Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if killed.slot != -1 {
		t.Fatal("no commit failed")
	}
	if state, err := parts.Leases.Acquire(t.Context(), 1, "a", time.Minute); err != nil || state.Seq != 2 {
		t.Errorf("the checkpoint of slot 1 is at batch %d, %v", state.Seq, err)
	}
}

// The start's limit is for servers: a process that waits for replicas of another layout has started.
func TestWaitingForAnotherLayoutIsNotLimited(t *testing.T) {
	parts := partsFor(t, 1)
	limit := 100 * time.Millisecond
	parts.Start = startup.New(parts.Logger, limit, func(error) {})
	if _, err := parts.Leases.Heartbeat(t.Context(), "b", 2*limit); err != nil {
		t.Fatal(err)
	}
	if err := newResharder(configFor(2), parts).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := firstHeartbeat(t.Context(), configFor(2), parts); err != nil {
		t.Error(err)
	}
}

// statuses records a replica's status and problems.
type statuses struct {
	quiet
	reported  []string
	onProblem func()
}

func (s *statuses) ReplicaStatus(st ownership.Status) {
	s.reported = append(s.reported, "standby: "+st.Standby)
}

func (s *statuses) Problem(_ int, err error) {
	if err != nil {
		s.reported = append(s.reported, "problem: "+err.Error())
		s.onProblem()
	}
}

// Once the replicas of the other layout have stopped, a replica that can't change it is no longer on standby: it has a problem.
func TestAFailedLayoutChangeIsReported(t *testing.T) {
	parts := partsFor(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := &statuses{onProblem: stop}
	parts.Observer = seen
	if _, err := parts.Leases.Heartbeat(t.Context(), "b", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	parts.Sink.Close()
	if err := newResharder(configFor(2), parts).Run(ctx); err != nil {
		t.Fatal(err)
	}
	n := len(seen.reported)
	if n < 3 || !strings.Contains(seen.reported[0], "KUBECDC_SLOTS is 2 here, but 1") || seen.reported[n-2] != "standby: " || !strings.Contains(seen.reported[n-1], "change the number of slots: open the log of slot 0") {
		t.Errorf("reported %q", seen.reported)
	}
}
