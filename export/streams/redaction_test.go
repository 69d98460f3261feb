package streams

import (
	"context"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/redact"
	"kubecdc/sinks"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/exporttest"
	"kubecdc/test/require"
)

const plainSecret = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"Y2FuYXJ5"}}`

// storePlain commits the plain Secret, as an owner without redaction does.
func storePlain(t *testing.T, store checkpoint.Store, seq uint64) {
	t.Helper()
	err := store.Commit(t.Context(), checkpoint.Commit{Epoch: 1, Seq: seq, Streams: []checkpoint.StreamCommit{{Stream: exporttest.Secrets.ID(),
		Upserts: []checkpoint.Object{{Key: "ns/a", UID: "u", ResourceVersion: "1", Body: checkpoint.Pack([]byte(plainSecret))}}}}})
	mustDo(t, err)
}

func storedBody(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	return checkpointtest.Bodies(t, store, exporttest.Secrets.ID(), "ns/a")["ns/a"]
}

// When a stream is no longer exported, the checkpoint stores only metadata of it. When redaction is switched off again, bodies
// that were redacted are not restored.
func TestTheCheckpointIsRedacted(t *testing.T) {
	store := exporttest.Owned(t)
	storePlain(t, store, 1)
	for _, step := range []struct {
		resources string
		mode      redact.Mode
		want      string
	}{
		{"secrets", redact.Plain, `"k":"Y2FuYXJ5"`},
		{"secrets", redact.Hash, `"k":"hmac-sha256:`},
		{"secrets", redact.Plain, `"k":"hmac-sha256:`},
		{"*", redact.Plain, `"metadata":{"name":"a"}}`},
	} {
		if _, err := Redact(t.Context(), exporttest.Slot(t, store, step.resources, step.mode), 1); err != nil {
			t.Fatal(err)
		}
		if got := storedBody(t, store); !strings.Contains(got, step.want) {
			t.Errorf("%s, %s: the checkpoint has %s, want %s", step.resources, step.mode, got, step.want)
		}
	}
	if _, err := Redact(t.Context(), exporttest.Slot(t, store, "secrets", redact.Hash), 7); err == nil {
		t.Error("an owner of another epoch can redact the checkpoint")
	}
}

// Bodies that were stored for before-images are dropped when before-images are switched off.
func TestTheCheckpointKeepsNoBodiesWithoutBefore(t *testing.T) {
	store := exporttest.Owned(t)
	storePlain(t, store, 1)
	for _, before := range []bool{true, false, true} {
		s := exporttest.Slot(t, store, "secrets", redact.Plain)
		s.Config.Before = before
		if _, err := Redact(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		if got := storedBody(t, store); before && got != plainSecret || !before && got != "" {
			t.Errorf("KUBECDC_BEFORE %t: the checkpoint has %q", before, got)
		}
		if !before {
			storePlain(t, store, 2)
		}
	}
}

// When less is redacted than before, a snapshot is asked for, once. It writes the objects of which the log has less than is
// exported now. When bodies were not stored before, a snapshot that stores them is asked for.
func TestLooserRulesAskForASnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		first, then redact.Mode
		resources   string
		without     int // the number of sessions that store no bodies
		want        int
	}{
		"hashes, then all":      {redact.Hash, redact.Plain, "secrets", 0, 1},
		"metadata, then hashes": {redact.Metadata, redact.Hash, "secrets", 0, 1},
		"all, then hashes":      {redact.Plain, redact.Hash, "secrets", 0, 0},
		"hashes, then metadata": {redact.Hash, redact.Metadata, "secrets", 0, 0},
		"no change":             {redact.Hash, redact.Hash, "secrets", 0, 0},
		"no bodies to compare":  {redact.Hash, redact.Plain, "secrets", 3, 0},
		"not exported any more": {redact.Hash, redact.Plain, "*", 0, 0},
		"bodies are lacking":    {redact.Plain, redact.Plain, "secrets", 1, 1},
		"hashes are lacking":    {redact.Hash, redact.Plain, "secrets", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			store := exporttest.Owned(t)
			storePlain(t, store, 1)
			for i, mode := range []redact.Mode{c.first, c.then, c.then} {
				s := exporttest.Slot(t, store, c.resources, mode)
				s.Config.Before = i >= c.without
				if _, err := Redact(t.Context(), s, 1); err != nil {
					t.Fatal(err)
				}
			}
			open, err := store.Signals(t.Context(), true)
			if err != nil || len(open) != c.want {
				t.Errorf("open signals %+v (%v), want %d", open, err, c.want)
			}
		})
	}
}

// A body that the database failed to redact is never the base of a delta: after the next update, nothing of it is left. A body
// that was cached with the second update is a base again.
func TestAForgottenRedactionIsNoBase(t *testing.T) {
	store := exporttest.Owned(t)
	s := exporttest.Slot(t, store, "secrets", redact.Hash)
	storePlain(t, store, 1)
	c, _ := committerOf(t, s, exporttest.Inventory(s, 1<<20))
	for n, state := range []string{"one", "two", "three"} {
		updated := change.Change{Op: change.Update, Stream: exporttest.Secrets, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: change.VersionOf(uint64(n + 2)),
			After: []byte(strings.Replace(plainSecret, "Y2FuYXJ5", state, 1))}
		mustDo(t, c.Commit(t.Context(), &batching.Batch{Batch: change.Batch{Changes: []change.Change{updated}}}))
		err := store.Bodies(t.Context(), exporttest.Secrets.ID(), []string{"ns/a"}, func(_ string, b checkpoint.Body) error {
			base, err := checkpoint.Body{Base: b.Base}.Unpack()
			mustDo(t, err)
			body, err := b.Unpack()
			if strings.Contains(string(base), "Y2FuYXJ5") || !strings.Contains(string(body), state) || (b.Delta != nil) != (n > 1) {
				t.Errorf("the base is %s, the body %s, by a delta of %d bytes", base, body, len(b.Delta))
			}
			return err
		})
		mustDo(t, err)
	}
}

// The database may have failed to redact a body, and an owner with other settings may have written more to the log. Neither is
// exported.
func TestWhatIsReadBackIsRedacted(t *testing.T) {
	store := exporttest.Owned(t)
	s := exporttest.Slot(t, store, "secrets", redact.Hash)
	if _, err := Redact(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	storePlain(t, store, 1)
	own := exporttest.Inventory(s, 0)
	c, log := committerOf(t, s, own)
	deleted := change.Change{Op: change.Delete, Stream: exporttest.Secrets, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "2"}
	mustDo(t, c.Commit(t.Context(), &batching.Batch{Batch: change.Batch{Changes: []change.Change{deleted}}}))
	if got := log.before; !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("the before is %s", got)
	}
	created := change.Change{Op: change.Create, Stream: change.ParseStream(exporttest.Secrets.ID()), Namespace: "ns", Name: "a", UID: "u", After: []byte(plainSecret)}
	tail := func(_ context.Context, visit func(*sinks.Recovered) error) error {
		return visit(&sinks.Recovered{Batch: change.Batch{Epoch: 1, Seq: 3, Changes: []change.Change{created}}})
	}
	_, _, _, err := own.Open(t.Context(), &checkpoint.SlotState{Epoch: 1, Seq: 2}, &sinks.Opened{Tail: tail}, nil)
	if got := storedBody(t, store); err != nil || !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("a batch that is rolled forward leaves %s, %v", got, err)
	}
}

// committerOf writes to a log that only has the last state before.
func committerOf(t *testing.T, s *plan.Slot, own *inventory.Slot) (*commit.Committer, *lastBefore) {
	t.Helper()
	log := &lastBefore{}
	m, _, _, err := own.Open(t.Context(), &checkpoint.SlotState{Epoch: 1, Seq: 1}, &sinks.Opened{Log: log, Tail: sinks.NoTail}, log.Write)
	mustDo(t, err)
	return commit.New(s, &commit.Opened{Memory: m, Guard: m, Following: m}, 1), log
}

type lastBefore struct {
	sinks.Log
	before string
}

func (l *lastBefore) Write(_ context.Context, b *change.Batch) (change.Offsets, error) {
	l.before = string(b.Changes[0].Before)
	return nil, nil
}

var mustDo = require.NoError
