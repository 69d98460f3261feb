package export

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/commit"
	"kubecdc/export/plan"
	"kubecdc/redact"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/exporttest"
)

const plainSecret = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"Y2FuYXJ5"}}`

func slotWith(t *testing.T, store checkpoint.Store, resources string, mode redact.Mode) *slot {
	t.Helper()
	patterns, err := discovery.ParsePatterns(strings.Split(resources, ","))
	mustDo(t, err)
	config := plan.Config{Cluster: "prod", Resources: patterns, Slots: 1, Before: true, Content: plan.Content{Secrets: mode, Key: redact.Key("a key of the tests")}}
	server, err := discovery.Connect(&rest.Config{Host: "http://nobody"})
	mustDo(t, err)
	parts := exporttest.Parts(store)
	parts.Server = server
	return newSlot(0, config, parts, nil)
}

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
		if _, err := slotWith(t, store, step.resources, step.mode).redactCheckpoint(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := storedBody(t, store); !strings.Contains(got, step.want) {
			t.Errorf("%s, %s: the checkpoint has %s, want %s", step.resources, step.mode, got, step.want)
		}
	}
	if _, err := slotWith(t, store, "secrets", redact.Hash).redactCheckpoint(t.Context(), 7); err == nil {
		t.Error("an owner of another epoch can redact the checkpoint")
	}
}

// Bodies that were stored for before-images are dropped when before-images are switched off.
func TestTheCheckpointKeepsNoBodiesWithoutBefore(t *testing.T) {
	store := exporttest.Owned(t)
	storePlain(t, store, 1)
	for _, before := range []bool{true, false, true} {
		s := slotWith(t, store, "secrets", redact.Plain)
		s.Config.Before = before
		if _, err := s.redactCheckpoint(t.Context(), 1); err != nil {
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
				s := slotWith(t, store, c.resources, mode)
				s.Config.Before = i >= c.without
				if _, err := s.redactCheckpoint(t.Context(), 1); err != nil {
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
	s := slotWith(t, store, "secrets", redact.Hash)
	storePlain(t, store, 1)
	s.inventory.CacheBytes = 1 << 20
	c, _ := committerOf(t, s)
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
	s := slotWith(t, store, "secrets", redact.Hash)
	if _, err := s.redactCheckpoint(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	storePlain(t, store, 1)
	c, log := committerOf(t, s)
	deleted := change.Change{Op: change.Delete, Stream: exporttest.Secrets, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "2"}
	mustDo(t, c.Commit(t.Context(), &batching.Batch{Batch: change.Batch{Changes: []change.Change{deleted}}}))
	if got := log.before; !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("the before is %s", got)
	}
	created := change.Change{Op: change.Create, Stream: change.ParseStream(exporttest.Secrets.ID()), Namespace: "ns", Name: "a", UID: "u", After: []byte(plainSecret)}
	tail := func(_ context.Context, visit func(*sinks.Recovered) error) error {
		return visit(&sinks.Recovered{Batch: change.Batch{Epoch: 1, Seq: 3, Changes: []change.Change{created}}})
	}
	_, _, _, err := s.inventory.Open(t.Context(), &checkpoint.SlotState{Epoch: 1, Seq: 2}, &sinks.Opened{Tail: tail}, nil)
	if got := storedBody(t, store); err != nil || !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("a batch that is rolled forward leaves %s, %v", got, err)
	}
}

// committerOf writes to a log that only has the last state before.
func committerOf(t *testing.T, s *slot) (*commit.Committer, *lastBefore) {
	t.Helper()
	log := &lastBefore{}
	m, _, _, err := s.inventory.Open(t.Context(), &checkpoint.SlotState{Epoch: 1, Seq: 1}, &sinks.Opened{Log: log, Tail: sinks.NoTail}, log.Write)
	mustDo(t, err)
	return commit.New(&s.Slot, &commit.Opened{Memory: m, Guard: m, Following: m}, 1), log
}

type lastBefore struct {
	sinks.Log
	before string
}

func (l *lastBefore) Write(_ context.Context, b *change.Batch) (change.Offsets, error) {
	l.before = string(b.Changes[0].Before)
	return nil, nil
}

// flushed counts how often it was flushed before the context had ended.
type flushed struct {
	commit.Following
	times int
}

func (f *flushed) Flush(ctx context.Context) error {
	if ctx.Err() == nil {
		f.times++
	}
	return ctx.Err()
}

// When a session ends, whether it drains or fails, the checkpoint gets what the log has.
func TestWhatIsPendingIsStoredWhenASessionEnds(t *testing.T) {
	for _, end := range []error{nil, errKilled} {
		ctx, cancel := context.WithCancel(t.Context())
		if end != nil {
			cancel()
		}
		m := &flushed{}
		if err := newSlot(0, plan.Config{}, exporttest.Parts(nil), nil).finish(ctx, m, end); err != end || m.times != 1 {
			t.Errorf("after %v the error is %v, and it was flushed %d times", end, err, m.times)
		}
		cancel()
	}
}
