package checkpointtest

import (
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

func markLost(t *testing.T, s *suite) {
	s.bind()
	old := s.acquire(0, "a").Epoch
	s.must(s.store.Commit(s.ctx, everything(old, 1)))
	b := checkpoint.Object{Key: "b", UID: "u2", ResourceVersion: "2", Body: checkpoint.Pack([]byte("{}"))}
	s.put(0, old, 2, "pods", b, object("c", "u4", "4"))
	epoch := s.acquire(0, "a").Epoch
	s.wantError(s.store.MarkLost(s.ctx, 0, old, []change.StreamID{"pods"}), checkpoint.ErrFenced)
	s.wantPosition("pods", "101")
	s.wantInventory("pods", object("b", "u2", "2"), object("c", "u4", "4"))
	for range 2 {
		s.must(s.store.MarkLost(s.ctx, 0, epoch, []change.StreamID{"pods", "never seen"}))
		s.wantInventory("pods", lost("b", "u2", "2"), lost("c", "u4", "4"))
	}
	s.wantInventory("nodes", object("n", "u3", "3"))
	s.wantPosition("nodes", "201")
	if p, _, err := s.store.Position(s.ctx, "pods"); err != nil || p.ResourceVersion != "" {
		t.Fatalf("position is %+v %v", p, err)
	}
	if found := Bodies(t, s.store, "pods", "b"); found["b"] != "{}" {
		t.Fatalf("bodies are %q", found)
	}
	s.put(0, epoch, 3, "pods", b, object("d", "u5", "5"))
	s.wantInventory("pods", object("b", "u2", "2"), lost("c", "u4", "4"), object("d", "u5", "5"))

	// A rebuild reads from the log what it has.
	s.must(s.store.MarkLost(s.ctx, 0, epoch, []change.StreamID{"pods"}))
	none := func(change.StreamID) bool { return false }
	s.must(s.store.Clear(s.ctx, 0, epoch, none))
	page := []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{b}}}
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, page))
	s.wantInventory("pods", object("b", "u2", "2"), lost("c", "u4", "4"), lost("d", "u5", "5"))
}

// lost is an object of which the log has lost its record.
func lost(key, uid string, version change.ResourceVersion) checkpoint.Object {
	o := object(key, uid, version)
	o.Lost = true
	return o
}
