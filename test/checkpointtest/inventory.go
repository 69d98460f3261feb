package checkpointtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func lifecycle(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("ns/a", "u1", "1"), object("ns/b", "u2", "2"))
	s.put(0, epoch, 2, "pods", object("ns/a", "u1", "3"))
	s.wantInventory("pods", object("ns/a", "u1", "3"), object("ns/b", "u2", "2"))
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"ns/a", "never seen"}}}}))
	s.wantInventory("pods", object("ns/b", "u2", "2"))
	s.put(0, epoch, 4, "pods", object("ns/a", "u9", "5"))
	s.wantInventory("pods", object("ns/a", "u9", "5"), object("ns/b", "u2", "2"))
}

func separateStreams(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u1", "1"))
	s.put(0, epoch, 2, "pods@ns?labels=a=b", object("a", "u1", "2"))
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"a"}}}}))
	s.wantInventory("pods")
	s.wantInventory("pods@ns?labels=a=b", object("a", "u1", "2"))
}

func separateClusters(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, everything(epoch, 1)))
	Bind(s.t, s.store, "staging", "uid-2")
	s.wantPosition("pods", "")
	s.wantInventory("pods")
	if state := s.acquire(0, "b"); state.Epoch != 1 || state.Seq != 0 {
		t.Fatalf("state is %+v", state)
	}
	s.put(0, 1, 1, "pods", object("z", "u", "1"))
	s.bind()
	s.wantInventory("pods", object("b", "u2", "2"))
	s.wantPosition("pods", "101")
}

func bytewise(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	ordered := []string{"A/z", "a", "a-b/x", "a.b/x", "a/B", "a/b", "a/b-1", "a/b.1", "a0/x", "b/:system", "z", "ä/é", "日本/x"}
	var objects []checkpoint.Object
	for i := range ordered {
		objects = append(objects, object(ordered[len(ordered)-1-i], "u", "1"))
	}
	s.put(0, epoch, 1, "pods", objects...)
	var got []string
	for _, o := range s.inventory("pods") {
		got = append(got, o.Key)
	}
	if !reflect.DeepEqual(got, ordered) {
		t.Fatalf("order is %q, not %q", got, ordered)
	}
}

func visitor(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", object("a", "u", "1"), object("b", "u", "1"), object("c", "u", "1"))
	stop := errors.New("stop")
	var seen []string
	err := s.store.Inventory(s.ctx, "pods", func(o checkpoint.Object) error {
		seen = append(seen, o.Key)
		if o.Key == "b" {
			return stop
		}
		s.put(0, epoch, 2, "pods", object("a", "u", "2"))
		return nil
	})
	s.wantError(err, stop)
	if strings.Join(seen, "") != "ab" {
		t.Fatalf("visited %q", seen)
	}
}

func pages(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	var objects []checkpoint.Object
	for i := range 12345 {
		objects = append(objects, object(fmt.Sprintf("ns-%d/%06d", i/5000, i), "u", change.VersionOf(uint64(i))))
	}
	s.put(0, epoch, 1, "pods", objects...)
	s.put(0, epoch, 2, "zz", object("other", "u", "1"))
	s.wantInventory("pods", objects...)
}
