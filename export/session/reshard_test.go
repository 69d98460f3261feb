package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/ownership"
	"kubecdc/export/plan"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/exporttest"
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

// partsFor are the parts of an exporter with a log in Postgres.
func partsFor(t *testing.T, slots int) *plan.Watched { return partsIn(t, servers.Database(t), slots) }

func partsIn(t *testing.T, url string, slots int) *plan.Watched {
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: "prod", ClusterUID: "uid"})
	mustDo(t, err)
	t.Cleanup(func() { sink.Close() })
	parts := exporttest.Parts(newStore(t, slots))
	parts.Sink = sink
	return parts
}

// newStore returns an empty checkpoint.
func newStore(t *testing.T, slots int) *sqlite.Store {
	store := exporttest.Store(t)
	if _, err := store.Slots(t.Context(), slots); err != nil {
		t.Fatal(err)
	}
	return store
}

func configFor(slots int) plan.Config {
	return plan.Config{Cluster: "prod", Slots: slots, Owner: "a", LeaseDuration: 10 * time.Second}
}

// An unused slot has a tail if an earlier layout change was killed between the log and the checkpoint.
func TestTheLayoutChangesThoughAnUnusedSlotHasATail(t *testing.T) {
	parts := partsFor(t, 2)
	killed := &killedAtCommit{parts.Store, -1}
	parts.Store = killed
	ctx, stop := servers.Patient(t.Context())
	defer stop()
	for _, slots := range []int{1, 2} {
		if slots == 2 {
			killed.slot = 1 // the first attempt fails
		}
		mustDo(t, NewResharder(configFor(slots), parts).Run(ctx))
	}
	if killed.slot != -1 {
		t.Fatal("no commit failed")
	}
	if state, err := parts.Store.Acquire(t.Context(), 1, "a", time.Minute); err != nil || state.Seq != 2 {
		t.Errorf("the checkpoint of slot 1 is at batch %d, %v", state.Seq, err)
	}
}

// shortened is a log in which a slot has lost everything after an offset.
type shortened struct {
	sinks.Sink
	slot, losses int
	ends         change.Offsets
}

func (s *shortened) Open(ctx context.Context, slot int, epoch int64, from sinks.Durable) (*sinks.Opened, error) {
	opened, err := s.Sink.Open(ctx, slot, epoch, from)
	if err == nil && slot == s.slot && from.Offsets["prod.pods"][0] > s.ends["prod.pods"][0] {
		s.losses++
		opened.Lost = &sinks.LostTailError{Reason: "prod.pods is shorter", TailRead: true, Offsets: s.ends,
			Gone: func(change.StreamID) bool { return true }}
	}
	return opened, err
}

// What the log has lost of a slot without streams is not a loss of the streams that the slot has after the change.
func TestALossOfAnUnusedSlotIsNoneOfItsNextStreams(t *testing.T) {
	parts := partsFor(t, 2)
	log := &shortened{Sink: parts.Sink, slot: 1, ends: change.Offsets{"prod.pods": {0: 3}}}
	parts.Sink = log
	for _, known := range []change.Offsets{{"prod.pods": {0: 9}}, nil, nil} {
		slot, err := NewResharder(configFor(2), parts).Acquire(t.Context(), 1, 2)
		if err == nil {
			err = slot.Open(t.Context(), true, func(error) {})
		}
		if err == nil {
			err = slot.Begin(t.Context(), change.Control{Type: change.ControlLayout}, known)
		}
		mustDo(t, err)
		slot.Close()
	}
	if log.losses != 1 {
		t.Errorf("the loss was found %d times", log.losses)
	}
}

// statuses records a replica's status and problems.
type statuses struct {
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

// Once the replicas of the other layout have stopped, a replica that can't change the layout is no longer on standby. It reports
// a problem.
func TestAFailedLayoutChangeIsReported(t *testing.T) {
	parts := partsFor(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := &statuses{onProblem: stop}
	if _, err := parts.Store.Heartbeat(t.Context(), "b", 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	parts.Sink.Close()
	r := NewResharder(configFor(2), parts)
	r.Observer = seen
	mustDo(t, r.Run(ctx))
	n := len(seen.reported)
	if n < 3 || !strings.Contains(seen.reported[0], "KUBECDC_SLOTS is 2 here, but 1") || seen.reported[n-2] != "standby: " || !strings.Contains(seen.reported[n-1], "change the number of slots: open the log of slot 0") {
		t.Errorf("reported %q", seen.reported)
	}
}
