package export

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/redact"
	"kubecdc/source/discovery"
)

const plainSecret = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"Y2FuYXJ5"}}`

var secrets = change.NewStream(change.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, "ns", "app=x", "")

func slotWith(t *testing.T, store checkpoint.Store, resources string, mode redact.Mode) *slot {
	t.Helper()
	patterns, err := discovery.ParsePatterns(strings.Split(resources, ","))
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Cluster: "prod", Resources: patterns, Slots: 1, Before: true, Content: Content{Secrets: mode, Key: redact.Key("a key of the tests")}}
	return newSlot(0, config, Parts{Store: store, Log: slog.New(slog.DiscardHandler), Observer: quiet{}}, nil)
}

// keep commits the plain Secret, as an owner would that may tell all.
func keep(t *testing.T, store checkpoint.Store, seq uint64) {
	t.Helper()
	err := store.Commit(t.Context(), checkpoint.Commit{Epoch: 1, Seq: seq, Streams: []checkpoint.StreamCommit{{Stream: secrets.ID(),
		Upserts: []checkpoint.Object{{Key: "ns/a", UID: "u", ResourceVersion: "1", Body: []byte(plainSecret)}}}}})
	if err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	found, err := store.Bodies(t.Context(), secrets.ID(), []string{"ns/a"})
	if err != nil {
		t.Fatal(err)
	}
	return string(found["ns/a"])
}

// A stream that is exported no more keeps no more than its metadata; one that may be told in full again gets nothing back.
func TestTheCheckpointKeepsWhatMayBeTold(t *testing.T) {
	store := storeAt(t, 0)
	keep(t, store, 1)
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
		if _, err := slotWith(t, store, step.resources, step.mode).settleRedactions(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, store); !strings.Contains(got, step.want) {
			t.Errorf("%s, %s: it keeps %s, want %s", step.resources, step.mode, got, step.want)
		}
	}
	if _, err := slotWith(t, store, "secrets", redact.Hash).settleRedactions(t.Context(), 7); err == nil {
		t.Error("another owner rewrites what is kept")
	}
}

// The database may forget that it rewrote a body, and an owner with other settings may have told more: neither comes out.
func TestWhatWasKeptBeforeIsHiddenWhenItIsRead(t *testing.T) {
	store := storeAt(t, 0)
	s := slotWith(t, store, "secrets", redact.Hash)
	if _, err := s.settleRedactions(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	keep(t, store, 1)
	log, r := &logged{}, &reads{store: store}
	c := &committer{epoch: 1, seq: 1, cluster: "prod", store: store, reads: r, log: log, befores: newBefores(r, s.rewriteOf, 0),
		observer: quiet{}, watermarks: map[change.StreamID]time.Time{}, watchdog: dependency.NewWatchdog(quiet{}, slog.New(slog.DiscardHandler)), reach: ownership.NewReachability(time.Minute, nil)}
	deleted := change.Change{Op: change.Delete, Stream: secrets, Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "2"}
	if err := c.commit(t.Context(), &batching.Batch{Batch: change.Batch{Changes: []change.Change{deleted}}}); err != nil {
		t.Fatal(err)
	}
	if got := string(log.batches[0].Changes[0].Before); !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("the before is %s", got)
	}
	created := change.Change{Op: change.Create, Stream: change.StreamFromID(secrets.ID()), Namespace: "ns", Name: "a", UID: "u", After: []byte(plainSecret)}
	batch := change.Batch{Changes: []change.Change{created}}
	redactBatch(&batch, s.rewrites())
	if got := string(batch.Changes[0].After); !strings.Contains(got, `"k":"hmac-sha256:`) {
		t.Errorf("a batch that is rolled forward has %s", got)
	}
}
