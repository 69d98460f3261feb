package checkpointtest

import (
	"sync"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func (s *suite) signal(kind change.SignalKind, stream change.StreamID, params string) int64 {
	s.t.Helper()
	request := checkpoint.Signal{Kind: kind, Stream: stream}
	if params != "" {
		request.Params = []byte(params)
	}
	id, err := s.store.AddSignal(s.ctx, request)
	s.must(err)
	return id
}

func (s *suite) wantSignals(open bool, want ...int64) []checkpoint.Signal {
	s.t.Helper()
	all, err := s.store.Signals(s.ctx, open)
	s.must(err)
	ids := []int64{}
	for _, g := range all {
		ids = append(ids, g.ID)
		if since := time.Since(g.Requested); since < -time.Minute || since > time.Minute || g.Answered.Before(g.Requested) {
			s.t.Errorf("signal %d was requested %s ago, and answered at %s", g.ID, since, g.Answered)
		}
	}
	if len(ids) != len(want) {
		s.t.Fatalf("signals %v, not %v", ids, want)
	}
	for i := range want {
		if ids[i] != want[i] {
			s.t.Fatalf("signals %v, not %v", ids, want)
		}
	}
	return all
}

func signals(t *testing.T, s *suite) {
	old := s.acquire(0, "a").Epoch
	first, second := s.signal(change.SignalSnapshot, "pods", `{"all":true}`), s.signal(change.SignalPause, "nodes", "")
	if second <= first {
		t.Fatalf("ids %d, %d do not grow", first, second)
	}
	g := s.wantSignals(true, first, second)[0]
	if g.Kind != change.SignalSnapshot || g.Stream != "pods" || string(g.Params) != `{"all":true}` || g.State != change.SignalRequested || g.Abort {
		t.Fatalf("signal %+v", g)
	}

	epoch := s.acquire(0, "a").Epoch
	answer := checkpoint.SignalAnswer{State: change.SignalInProgress, LastKey: "a/b", Done: 500, Total: 700, Reason: "why"}
	s.wantError(s.store.AnswerSignal(s.ctx, 0, old, first, answer), checkpoint.ErrFenced)
	s.wantError(s.store.AnswerSignal(s.ctx, 0, epoch+1, first, answer), checkpoint.ErrBehind)
	s.must(s.store.AnswerSignal(s.ctx, 0, epoch, first, answer))
	if g := s.wantSignals(true, first, second)[0]; g.SignalAnswer != answer {
		t.Fatalf("answer %+v, not %+v", g.SignalAnswer, answer)
	}
	answer.State = change.SignalCompleted
	s.must(s.store.AnswerSignal(s.ctx, 0, epoch, first, answer))
	s.wantError(s.store.AnswerSignal(s.ctx, 0, epoch, first, answer), checkpoint.ErrSignalEnded)
	s.wantSignals(true, second)
	s.wantSignals(false, first, second)
}

func manySignals(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	add := func(streams ...change.StreamID) (id int64) {
		t.Helper()
		id, err := s.store.AddSignals(s.ctx, checkpoint.Signal{Kind: change.SignalRestore, Params: []byte(`{"found":"pods"}`)}, streams)
		s.must(err)
		return id
	}
	other := s.signal(change.SignalPause, "pods", "")
	var both sync.WaitGroup
	var first, rival int64
	both.Go(func() { first = add("pods", "nodes") })
	both.Go(func() { rival = add("nodes", "pods") })
	both.Wait()
	all, err := s.store.Signals(s.ctx, true)
	s.must(err)
	if len(all) != 3 || first == rival {
		t.Fatalf("two callers stored %+v, and got the ids %d and %d", all, first, rival)
	}
	for _, g := range all[1:] {
		if want := map[int64]change.StreamID{first: "pods", rival: "nodes"}[g.ID]; g.Stream != want || g.Kind != change.SignalRestore ||
			string(g.Params) != `{"found":"pods"}` || g.State != change.SignalRequested {
			t.Fatalf("signal %+v", g)
		}
	}
	s.must(s.store.AnswerSignal(s.ctx, 0, epoch, first, checkpoint.SignalAnswer{State: change.SignalCompleted}))
	if id := add("nodes", "pods"); id != rival {
		t.Fatalf("another signal is stored for a stream that has one: %d", id)
	}
	s.wantSignals(true, other, rival)
	if id := add("pods", "nodes"); id <= first {
		t.Fatalf("the id of the next one is %d, after %d", id, first)
	}
}

func abortSignals(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	unseen, begun := s.signal(change.SignalSnapshot, "pods", ""), s.signal(change.SignalSnapshot, "pods", "")
	s.must(s.store.AnswerSignal(s.ctx, 0, epoch, begun, checkpoint.SignalAnswer{State: change.SignalStarted}))
	s.must(s.store.AbortSignal(s.ctx, unseen))
	s.must(s.store.AbortSignal(s.ctx, begun))
	s.wantError(s.store.AbortSignal(s.ctx, unseen), checkpoint.ErrSignalEnded)
	s.wantError(s.store.AbortSignal(s.ctx, begun+1), checkpoint.ErrSignalEnded)
	s.wantError(s.store.AnswerSignal(s.ctx, 0, epoch, unseen, checkpoint.SignalAnswer{State: change.SignalStarted}), checkpoint.ErrSignalEnded)
	if g := s.wantSignals(true, begun)[0]; !g.Abort || g.State != change.SignalStarted {
		t.Fatalf("a signal that has begun is %+v", g)
	}

	s.must(s.store.Prune(s.ctx, time.Hour))
	s.wantSignals(false, unseen, begun)
	s.must(s.store.Prune(s.ctx, -time.Hour)) // everything is older than a time in an hour
	s.wantSignals(false, begun)
	if next := s.signal(change.SignalPause, "pods", ""); next <= begun {
		t.Fatalf("id %d is given again", next)
	}

	Bind(t, s.store, "staging", "uid-2")
	s.wantSignals(false)
	s.wantError(s.store.AbortSignal(s.ctx, begun), checkpoint.ErrSignalEnded)
}
