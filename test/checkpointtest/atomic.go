package checkpointtest

import (
	"fmt"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// stampedObjects makes a commit long enough to be killed in the middle.
const stampedObjects = 300

// StampedCommit returns a commit whose parts all have its number: position, offsets, and each object's resourceVersion and body.
// Odd ones delete half of the objects. After a crash WantAtomic checks that the parts agree.
func StampedCommit(epoch int64, seq uint64) checkpoint.Commit {
	version := change.VersionOf(seq)
	pods := checkpoint.StreamCommit{Stream: "pods"}
	for i := range stampedObjects {
		key := fmt.Sprintf("ns/pod-%d", i)
		if seq%2 == 1 && i%2 == 1 {
			pods.Deletes = append(pods.Deletes, key)
			continue
		}
		pods.Upserts = append(pods.Upserts, checkpoint.Object{Key: key, UID: "u", ResourceVersion: version,
			Body: checkpoint.Pack([]byte(version))})
	}
	return checkpoint.Commit{Epoch: epoch, Seq: seq, Streams: []checkpoint.StreamCommit{pods},
		Positions: []change.Position{position("pods", version)}, Offsets: change.Offsets{"k8s.pods": {0: int64(seq)}}}
}

// WantAtomic acquires slot 0 as owner, after commits by StampedCommit were interrupted. It fails unless all parts agree on one
// number, and returns the slot's state.
func WantAtomic(t testing.TB, store checkpoint.Store, owner string) checkpoint.SlotState {
	t.Helper()
	state, err := store.Acquire(t.Context(), 0, owner, ttl)
	if err != nil {
		t.Fatal(err)
	}
	if state.Seq == 0 {
		return state
	}
	version := change.VersionOf(state.Seq)
	p, ok, err := store.Position(t.Context(), "pods")
	if err != nil || !ok || p.ResourceVersion != version {
		t.Fatalf("the position is %v %v %v after batch %s", p, ok, err, version)
	}
	if next := state.Offsets["k8s.pods"][0]; next != int64(state.Seq) {
		t.Fatalf("the offset is %d after batch %s", next, version)
	}
	wantObjectsOf(t, store, version, len(StampedCommit(0, state.Seq).Streams[0].Upserts))
	wantHistoryTo(t, store, state.Seq)
	return state
}

func wantObjectsOf(t testing.TB, store checkpoint.Store, version change.ResourceVersion, want int) {
	t.Helper()
	var keys []string
	err := store.Inventory(t.Context(), "pods", func(o checkpoint.Object) error {
		if o.ResourceVersion != version {
			return fmt.Errorf("%s is at resourceVersion %s after batch %s", o.Key, o.ResourceVersion, version)
		}
		keys = append(keys, o.Key)
		return nil
	})
	if err != nil || len(keys) != want {
		t.Fatalf("%d objects, not %d, after batch %s; %v", len(keys), want, version, err)
	}
	bodies := Bodies(t, store, "pods", keys...)
	if len(bodies) != want {
		t.Fatalf("%d bodies, not %d", len(bodies), want)
	}
	for key, body := range bodies {
		if body != string(version) {
			t.Fatalf("the body of %s is of batch %s after batch %s", key, body, version)
		}
	}
}

// wantHistoryTo demands a history up to the batch, with epochs that never decrease.
func wantHistoryTo(t testing.TB, store checkpoint.Store, seq uint64) {
	t.Helper()
	all, err := store.Select(t.Context(), 0, checkpoint.Window{Limit: int(seq) + 10})
	if err != nil || len(all) == 0 || all[0].Seq != seq {
		t.Fatalf("history is %+v after batch %d; %v", all, seq, err)
	}
	for i := range all[1:] {
		if all[i+1].Seq >= all[i].Seq || all[i+1].Epoch > all[i].Epoch {
			t.Fatalf("history is %+v", all)
		}
	}
}
