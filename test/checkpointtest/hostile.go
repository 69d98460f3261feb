package checkpointtest

import (
	"reflect"
	"slices"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/test/hostile"
)

// hostileObjects returns objects with odd keys, uids and contents, in bytewise order of their keys.
func hostileObjects() (objects []checkpoint.Object) {
	contents := hostile.Contents()
	for i, name := range hostile.Names() {
		o := object("ns/"+name.Text, name.Text, change.VersionOf(uint64(i+1)))
		o.Body = checkpoint.Pack([]byte(contents[i%len(contents)].Text))
		objects = append(objects, o)
	}
	return objects
}

// hostileNames checks that no object's name, and no text that quotes one, stops anything or changes the order.
func hostileNames(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	objects := hostileObjects()
	var keys []string
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	mixed := slices.Concat(objects[len(objects)/2:], objects[:len(objects)/2])
	s.put(0, epoch, 1, "pods", mixed...)
	s.wantKeys("pods", keys)
	s.wantBodiesOf("pods", objects)

	proof := change.Control{Type: change.ControlProof, Stream: "pods", Cause: keys[0],
		Proof: &change.Proof{Result: change.ProofDifferent, Missing: change.Differing{Objects: len(keys), Keys: keys}}}
	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 2, Controls: []change.Control{proof}}))
	if last, err := s.store.LastControls(s.ctx); err != nil || len(last) != 1 || !reflect.DeepEqual(last[0].Proof, proof.Proof) {
		t.Errorf("the last proof is %+v, %v", last, err)
	}
	id := s.signal(change.SignalSnapshot, "pods", "")
	for _, key := range keys {
		answer := checkpoint.SignalAnswer{State: change.SignalInProgress, LastKey: key, Reason: "read " + key}
		s.must(s.store.AnswerSignal(s.ctx, 0, epoch, id, answer))
		if g := s.wantSignals(true, id)[0]; g.SignalAnswer != answer {
			t.Errorf("the answer is %+v, not %+v", g.SignalAnswer, answer)
		}
	}

	s.must(s.store.Commit(s.ctx, checkpoint.Commit{Epoch: epoch, Seq: 3,
		Streams: []checkpoint.StreamCommit{{Stream: "pods", Deletes: keys[:len(keys)/2]}}}))
	s.wantKeys("pods", keys[len(keys)/2:])
	rewritten := []string{}
	s.must(s.store.Redact(s.ctx, 0, epoch, []checkpoint.Redaction{{Stream: "pods", Rules: "r",
		Rewrite: func(key string, body []byte) []byte { rewritten = append(rewritten, key); return body }}}))
	slices.Sort(rewritten)
	if !slices.Equal(rewritten, keys[len(keys)/2:]) {
		t.Errorf("rewritten were %q", rewritten)
	}
}

// hostileRebuild checks the same for a rebuild.
func hostileRebuild(t *testing.T, s *suite) {
	epoch := s.acquire(0, "a").Epoch
	objects := hostileObjects()
	var keys []string
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	s.must(s.store.Clear(s.ctx, 0, epoch, func(change.StreamID) bool { return true }))
	s.must(s.store.PutPage(s.ctx, 0, epoch, 0, []checkpoint.StreamCommit{{Stream: "pods", Upserts: objects}}))
	s.must(s.store.PutPage(s.ctx, 0, epoch, 1, []checkpoint.StreamCommit{{Stream: "pods", Deletes: keys[:3]}}))
	s.must(s.store.Rebuilt(s.ctx, 2, checkpoint.Commit{Epoch: epoch, Seq: 7, Positions: []change.Position{position("pods", "9")}}))
	s.wantKeys("pods", keys[3:])
	s.wantBodiesOf("pods", objects[3:])
}

func (s *suite) wantKeys(stream change.StreamID, want []string) {
	s.t.Helper()
	var got []string
	for _, o := range s.inventory(stream) {
		got = append(got, o.Key)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the keys of %s are\n%q, not\n%q", stream, got, want)
	}
}

func (s *suite) wantBodiesOf(stream change.StreamID, objects []checkpoint.Object) {
	s.t.Helper()
	want, keys := map[string]string{}, []string{}
	for _, o := range objects {
		body, err := o.Body.Unpack()
		s.must(err)
		want[o.Key], keys = string(body), append(keys, o.Key)
	}
	if got := Bodies(s.t, s.store, stream, keys...); !reflect.DeepEqual(got, want) {
		s.t.Errorf("%d bodies of %s are read, of %d, or not as they were", len(got), stream, len(want))
	}
}
