package live

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/dependency"
)

// server returns whether a server is up, and since how many seconds that is so.
func server(h *Exporter, name string) (up bool, seconds int) {
	s, used := h.Snapshot().Servers[name]
	if !used {
		return false, -1
	}
	return s.Up, int(h.Now().Sub(s.Since).Seconds())
}

// A server is down from the first until the last of its problems, and otherwise up.
func TestSinceWhenAServerIsUp(t *testing.T) {
	now := time.Now()
	h := New(slog.New(slog.DiscardHandler), 1)
	h.Now = func() time.Time { return now }
	want := func(when string, up bool, seconds int) {
		t.Helper()
		if gotUp, got := server(h, dependency.Sink); gotUp != up || got != seconds {
			t.Errorf("%s: up %v for %d s, not %v for %d s", when, gotUp, got, up, seconds)
		}
		now = now.Add(10 * time.Second)
	}
	want("before it is used", false, -1)
	h.SlotHeld(0, 1, true)
	want("read", true, 0)
	h.Fails(dependency.Sink, errors.New("no leader"))
	want("a problem", false, 0)
	h.Problem(0, dependency.Tag(dependency.Sink, errors.New("no leader")))
	want("the session fails too", false, 10)
	h.Fails(dependency.Sink, nil)
	want("one of the two is over", false, 20)
	h.Problem(0, nil)
	want("both are over", true, 0)
	h.Stalled(dependency.Sink, errors.New("no answer"))
	want("no answer", false, 0)
	h.Stalled(dependency.Sink, nil)
	h.Committed(Committed{Batch: &change.Batch{}})
	want("an answer", true, 0)
	want("later", true, 10)
}

// When a session fails, what only a session can know is dropped. What the log has of the stream, and when it was complete,
// remains.
func TestAStreamOutlivesAFailedSession(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler), 1)
	differs := &change.Proof{Result: change.ProofDifferent, Stale: change.Differing{Objects: 2}}
	pods := change.NewStream(change.Resource{Plural: "pods"}, "", "", "")
	start := func() {
		e.SlotStreams(0, []change.Position{{Stream: pods.ID(), Time: time.Now()}})
		e.SlotHeld(0, 1, true)
		e.StreamAdded(0, pods.ID(), func() int64 { return 7 })
	}
	start()
	e.StreamState(pods.ID(), change.StateWatching, nil)
	e.Committed(Committed{Batch: &change.Batch{Changes: []change.Change{{Stream: pods}},
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "9"}},
		Controls:  []change.Control{{Type: change.ControlProof, Stream: pods.ID(), Proof: differs}}}})
	e.StreamState(pods.ID(), change.StateWaiting, errors.New("EOF"))
	e.StreamsStopped(0)
	e.SlotHeld(0, 1, false)
	start()
	s := e.Snapshot().Streams[pods.ID()]
	if s.State != StateNew || s.Settled || s.Problem != nil || s.Position.ResourceVersion != "" {
		t.Errorf("the next session begins with %+v", s.Session)
	}
	if s.Objects != 7 || s.Rate == 0 || s.Differs == nil || s.Differing != 2 || len(s.Controls) != 1 {
		t.Errorf("what is known of the stream is lost: %+v", s)
	}
	if e.SlotStreams(0, nil); len(e.Snapshot().Streams) != 0 {
		t.Error("there is a stream of a slot that another replica has")
	}
}

// While the number of slots changes, slots of the other layout are opened. They are not expected to be held.
func TestSlotsOfAnotherLayoutAreNotShown(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler), 2)
	e.Delayed(3, "rolled forward")
	e.Committed(Committed{Batch: &change.Batch{Slot: 3}})
	if n := len(e.Snapshot().Slots); n != 2 {
		t.Errorf("%d slots are shown", n)
	}
}
