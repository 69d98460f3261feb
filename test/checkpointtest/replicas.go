package checkpointtest

import (
	"reflect"
	"testing"
	"time"

	"kubecdc/checkpoint"
)

func (s *suite) beat(owner string, ttl time.Duration) checkpoint.Replicas {
	s.t.Helper()
	r, err := s.store.Heartbeat(s.ctx, owner, ttl)
	s.must(err)
	return r
}

func (s *suite) wantMembers(r checkpoint.Replicas, want ...string) {
	s.t.Helper()
	if !reflect.DeepEqual(r.Members, want) {
		s.t.Fatalf("members are %q, not %q", r.Members, want)
	}
}

func members(t *testing.T, s *suite) {
	s.wantMembers(s.beat("b", ttl), "b")
	s.wantMembers(s.beat("a", ttl), "a", "b")
	s.beat("c", time.Millisecond)
	time.Sleep(2 * time.Millisecond) // c sends no more heartbeats
	s.wantMembers(s.beat("a", ttl), "a", "b")
	s.must(s.store.Leave(s.ctx, "b"))
	s.wantMembers(s.beat("a", ttl), "a")
	s.wantMembers(s.beat("c", ttl), "a", "c") // c is a member again
	s.wantMembers(s.beat("c", 0), "a", "c")   // c only reads
	time.Sleep(2 * time.Millisecond)
	s.wantMembers(s.beat("a", ttl), "a")
}

func owners(t *testing.T, s *suite) {
	first := s.acquire(0, "a")
	s.acquire(2, "b")
	_, err := s.store.Acquire(s.ctx, 3, "c", 0) // expires at once
	s.must(err)
	if r := s.beat("a", ttl); !reflect.DeepEqual(r.Slots, map[int]string{0: "a", 2: "b"}) {
		t.Fatalf("slots are %v", r.Slots)
	}
	s.must(s.store.Release(s.ctx, 0, first.Epoch))
	if r := s.beat("a", ttl); !reflect.DeepEqual(r.Slots, map[int]string{2: "b"}) {
		t.Fatalf("slots are %v", r.Slots)
	}
}
