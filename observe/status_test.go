package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/export/ownership"
	"kubecdc/internal/dependency"
	"kubecdc/status"
)

// The API server is shown like other servers, from the first heartbeat on. If it does not answer, the process is not ready.
func TestTheAPIServerIsAServer(t *testing.T) {
	e := observing(1)
	e.SlotHeld(0, 1, true)
	e.StreamsKnown(0)
	e.ReplicaStatus(ownership.Status{Replicas: 1, Self: "me", Owners: map[int]string{0: "me"}})
	if up := e.Snapshot().Servers[dependency.APIServer].Up; !up || !status.ReportOf(e.Snapshot()).Ready {
		t.Errorf("it is up: %v; %+v", up, status.ReportOf(e.Snapshot()))
	}
	e.Stalled(dependency.APIServer, errors.New("no answer since 12:00"))
	if up := e.Snapshot().Servers[dependency.APIServer].Up; up || status.ReportOf(e.Snapshot()).Ready {
		t.Errorf("without an answer it is up: %v; %+v", up, status.ReportOf(e.Snapshot()))
	}
	e.Stalled(dependency.APIServer, nil)
	past := e.Snapshot().Past
	if len(past) != 1 || past[0].Component != dependency.APIServer || past[0].Text != "no answer since 12:00" {
		t.Errorf("what was wrong is %+v", past)
	}
}

// stored is a checkpoint in memory that may not answer.
type stored struct {
	checkpoint.Overview
	hangs bool
	asked int
}

func (s *stored) Streams(ctx context.Context) ([]change.Position, error) {
	if s.asked++; s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	position := time.Now().Add(-time.Minute)
	return []change.Position{{Stream: "pods", ResourceVersion: "5", Time: position}, {Stream: "nodes", ResourceVersion: "6", Time: position}}, nil
}

func (s *stored) SlotOwners(context.Context) ([]checkpoint.SlotOwner, error) {
	return []checkpoint.SlotOwner{{Owner: "me", Held: true, Selected: []change.StreamID{}}}, nil
}
func (s *stored) Clock(context.Context) (time.Time, error)                   { return time.Now(), nil }
func (s *stored) LastControls(context.Context) ([]change.Control, error)     { return nil, nil }
func (s *stored) Signals(context.Context, bool) ([]checkpoint.Signal, error) { return nil, nil }

// A stream is shown with what the process reports, or else with what the checkpoint has. No page waits for a checkpoint that
// hangs.
func TestAStatusJoinsProcessAndCheckpoint(t *testing.T) {
	e := observing(1)
	e.StreamAdded(0, "pods", nil)
	e.StreamState("pods", change.StateWatching, nil)
	e.ReplicaStatus(ownership.Status{Replicas: 2, Self: "me", Owners: map[int]string{0: "me"}})
	e.SlotHeld(0, 1, true)
	e.StreamsKnown(0)
	stream := change.NewStream(change.Resource{Plural: "pods"}, "", "", "")
	changes := make([]change.Change, 120)
	for i := range changes {
		changes[i] = change.Change{Op: change.Create, Stream: stream}
	}
	e.Exporter.Committed(live.Committed{Batch: &change.Batch{Changes: changes,
		Positions: []change.Position{{Stream: "pods", ResourceVersion: "9", Time: time.Now()}},
		Controls:  []change.Control{{Type: change.ControlGap, Stream: "pods", Gap: &change.Gap{Complete: true, Recovered: 7}}}}})
	store := &stored{}
	s := &Status{Exporter: e.Exporter, StaleAfter: time.Hour}
	size := func(context.Context) *change.LogSize { return &change.LogSize{Bytes: 7} }
	defer s.Open(Place{Cluster: "prod", Store: store, LogSize: size})()
	got := s.Now()
	if len(got.Streams) != 2 || !got.Healthy || got.Cluster != "prod" || !got.Slots[0].Mine || got.Process.Replicas != 2 || got.Log.Bytes != 7 {
		t.Fatalf("got %+v", got)
	}
	nodes, pods := got.Streams[0], got.Streams[1]
	if pods.Position != "9" || pods.State != "watching" || pods.Gap.Recovered != 7 || *pods.Rate < 1.9 || *pods.Rate > 2 {
		t.Errorf("pods are %+v", pods)
	}
	if nodes.Position != "6" || nodes.State != "followed" || nodes.Rate != nil {
		t.Errorf("nodes are %+v", nodes)
	}
	store.hangs, store.asked, s.tried = true, 0, time.Time{}
	var late *status.Status
	for range 10 { // pages, one after another
		late = s.Now()
	}
	if store.asked > 5 {
		t.Errorf("it waited for %d reads", store.asked)
	}
	if len(late.Streams) != 2 || !strings.Contains(strings.Join(late.Notes, " "), "could not be read") {
		t.Errorf("it shows %+v", late)
	}
}

func TestReadyzNamesNoObject(t *testing.T) {
	h := observing(1).Exporter
	h.Problem(0, errors.New(`repair "shop/hunter2": no answer`))
	if text := status.ReportOf(h.Snapshot()).Problems[0].Text; text != `repair "…": no answer` {
		t.Errorf("it says %q", text)
	}
}
