package checkpointtest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// wide returns a body that changes little from one version to the next.
func wide(version int) string {
	return fmt.Sprintf(`{"version":"%d","spec":"%s"}`, version, strings.Repeat("0123456789 secret ", 100))
}

func hidden(version int) string { return strings.ReplaceAll(wide(version), "secret", "hidden") }

// updated returns an object at a version, as an update of a base.
func updated(key string, base, version int) checkpoint.Object {
	o := object(key, "u", "1")
	o.Body = checkpoint.Pack([]byte(wide(base))).Update([]byte(wide(version)))
	return o
}

func packed(key string, body string) checkpoint.Object {
	o := object(key, "u", "1")
	o.Body = checkpoint.Pack([]byte(body))
	return o
}

func (s *suite) wantBodies(want map[string]string) {
	s.t.Helper()
	if got := Bodies(s.t, s.store, "pods", "a", "b", "c"); !maps.Equal(got, want) {
		s.t.Fatalf("bodies are %.200q, not %.200q", got, want)
	}
}

func deltas(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	if !updated("a", 1, 2).Body.KeepsBase() {
		t.Fatal("a small change makes a new base")
	}
	s.put(0, epoch, 1, "pods", packed("a", wide(1)), packed("b", wide(7)))
	s.put(0, epoch, 2, "pods", updated("a", 1, 2))
	s.put(0, epoch, 3, "pods", updated("a", 1, 3), updated("b", 7, 8))
	s.wantBodies(map[string]string{"a": wide(3), "b": wide(8)})

	old, epoch := epoch, s.acquire(0, "a").Epoch // the next owner finds the same
	s.wantError(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: old, Seq: 4,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{updated("a", 1, 9)}}}}), checkpoint.ErrFenced)
	s.wantBodies(map[string]string{"a": wide(3), "b": wide(8)})

	o := packed("a", wide(1)) // a new base, and a delta of it
	o.Body.Delta = updated("a", 1, 4).Body.Delta
	s.put(0, epoch, 4, "pods", o, packed("b", "{}"), updated("c", 1, 2))
	s.wantDamaged("c") // its base was never stored
	s.put(0, epoch, 5, "pods", packed("c", wide(1)))
	s.wantBodies(map[string]string{"a": wide(4), "b": "{}", "c": wide(1)})

	other := object("c", "u", "1")
	other.Body = checkpoint.Pack([]byte(hidden(1))).Update([]byte(hidden(2)))
	s.put(0, epoch, 6, "pods", other)
	s.wantDamaged("c") // it refers to another base
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 7,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: []string{"a", "c"}}}}))
	s.put(0, epoch, 8, "pods", updated("a", 1, 2)) // created again with its name: the base is gone
	s.wantDamaged("a")
	s.put(0, epoch, 9, "pods", object("a", "u", "9"), packed("c", wide(5)))
	s.wantBodies(map[string]string{"b": "{}", "c": wide(5)})
}

// wantDamaged demands an error, and no other body, for a delta without its base.
func (s *suite) wantDamaged(key string) {
	s.t.Helper()
	err := s.store.Bodies(s.ctx, "pods", []string{key}, func(_ string, b checkpoint.Body) error {
		_, err := b.Unpack()
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "delta") {
		s.t.Fatalf("the body of %s: error is %v", key, err)
	}
}

// rebuiltDeltas checks that a rebuild leaves nothing that was stored before.
func rebuiltDeltas(_ *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", packed("a", wide(1)), packed("b", wide(1)))
	s.put(0, epoch, 2, "pods", updated("a", 1, 2), updated("b", 1, 2))
	page := []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{packed("a", wide(5)), packed("c", wide(6))}}}
	s.must(s.store.Clear(s.ctx, 0, epoch, func(change.StreamID) bool { return false }))
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, page))
	s.wantBodies(map[string]string{"a": wide(5), "b": wide(2), "c": wide(6)})
	s.must(s.store.Clear(s.ctx, 0, epoch, func(change.StreamID) bool { return true }))
	s.wantBodies(map[string]string{})
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, page))
	s.wantBodies(map[string]string{"a": wide(5), "c": wide(6)})
}

// redactDeltas checks that redaction also changes bases, even if the delta hides the value.
func redactDeltas(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	s.put(0, epoch, 1, "pods", packed("a", wide(1)), packed("b", wide(1)), packed("c", `{"none":"`+wide(1)+`"}`))
	s.put(0, epoch, 2, "pods", updated("a", 1, 2))
	s.must(s.store.Redact(s.ctx, 0, epoch, []checkpoint.Redaction{{Stream: "pods", Rules: "hide",
		Rewrite: func(key string, body []byte) []byte {
			if key == "c" {
				return nil
			}
			return []byte(strings.ReplaceAll(string(body), "secret", "hidden"))
		}}}))
	s.wantBodies(map[string]string{"a": hidden(2), "b": hidden(1)})
	s.must(s.store.Bodies(s.ctx, "pods", []string{"a", "b"}, func(key string, b checkpoint.Body) error {
		if base, err := (checkpoint.Body{Base: b.Base}).Unpack(); err != nil || strings.Contains(string(base), "secret") {
			t.Errorf("the base of %s is %.100q %v", key, base, err)
		}
		return nil
	}))
	o := object("a", "u", "3")
	o.Body = checkpoint.Pack([]byte(hidden(2))).Update([]byte(hidden(3)))
	s.put(0, epoch, 3, "pods", o)
	s.wantBodies(map[string]string{"a": hidden(3), "b": hidden(1)})
}
