package checkpointtest

import (
	"errors"
	"reflect"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// ended returns a position of an ended stream.
func ended(stream change.StreamID, version change.ResourceVersion, how change.Ended) change.Position {
	p := position(stream, version)
	p.Ended = how
	return p
}

func (s *suite) wantStreams(want ...change.Position) {
	s.t.Helper()
	got, err := s.store.Streams(s.ctx)
	s.must(err)
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		s.t.Fatalf("streams are %+v, not %+v", got, want)
	}
}

func (s *suite) end(epoch int64, seq uint64, positions ...change.Position) {
	s.t.Helper()
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: seq, Positions: positions}))
}

func removed(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, everything(epoch, 1)))
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 2,
		Positions: []change.Position{
			ended("pods", "", change.EndedRemoved), position("nodes", "300"), ended("never seen", "", change.EndedRemoved)},
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"b"}}}}))
	s.wantStreams(position("nodes", "300"))
	s.wantPosition("pods", "")
	s.end(epoch, 3, position("pods", "500")) // the resource is served again
	s.wantStreams(position("nodes", "300"), position("pods", "500"))
}

func deselected(t *testing.T, s *suite) {
	old := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, everything(old, 1)))
	s.end(old, 2, ended("pods", "101", change.EndedDeselected))
	s.wantStreams(position("nodes", "201"), ended("pods", "101", change.EndedDeselected))
	s.wantInventory("pods", object("b", "u2", "2"))
	if p, _, err := s.store.Position(s.ctx, "pods"); err != nil || p != ended("pods", "101", change.EndedDeselected) {
		t.Fatalf("position is %+v %v", p, err)
	}
	s.end(old, 3, position("pods", "101")) // selected again
	s.wantStreams(position("nodes", "201"), position("pods", "101"))
	s.end(old, 4, ended("pods", "101", change.EndedDeselected))

	epoch := s.acquire(0, "a").Epoch
	s.wantError(s.store.Forget(s.ctx, 0, old, "pods"), checkpoint.ErrFenced)
	s.wantInventory("pods", object("b", "u2", "2"))
	for _, living := range []change.StreamID{"nodes", "never seen"} {
		var not *checkpoint.NotEndedError
		if err := s.store.Forget(s.ctx, 0, epoch, living); !errors.As(err, &not) || not.Stream != living {
			t.Fatalf("forget %s: error is %v, not a NotEndedError", living, err)
		}
	}
	s.must(s.store.Forget(s.ctx, 0, epoch, "pods"))
	s.wantStreams(position("nodes", "201"))
	s.wantInventory("pods")
	s.wantInventory("nodes", object("n", "u3", "3"))
}

func brokenOff(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u", "1"))
	s.put(0, epoch, 2, "nodes")
	s.wantStreams(change.Position{Stream: "pods"})
	Bind(t, s.store, "staging", "uid-2")
	s.wantStreams()
}
