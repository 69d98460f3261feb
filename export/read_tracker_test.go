package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/batching"
	"kubecdc/export/live"
	"kubecdc/sinks"
	"kubecdc/test/checkpointtest"
)

// storeAt is a real store with the given number of batches of slot 0, in epoch 1.
func storeAt(t *testing.T, batches int) checkpoint.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	checkpointtest.Bind(t, store, "prod", "uid")
	if _, err := store.Acquire(t.Context(), 0, "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	c := committerAt(store, 0)
	for n := range batches {
		if err := c.commit(t.Context(), update(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// committerAt is a committer of epoch 1 after the given batch, without cached bodies.
func committerAt(store checkpoint.Store, seq uint64) *committer {
	parts := quietParts(store)
	reads := &readTracker{store: store, checkpoints: newCheckpointer(0, 1, seq, parts), writing: context.Background()}
	return &committer{watchedParts: parts, numbering: numbering{epoch: 1, seq: seq, cluster: "prod"}, reads: reads, log: &logged{}, touched: touched{stored: true},
		beforeImages: newBeforeImages(reads, (&slot{}).bodyRedactorOf, 0), watermarks: map[change.StreamID]time.Time{}}
}

// quietParts are parts that report nothing.
func quietParts(store checkpoint.Store) *watchedParts {
	return watch(time.Minute, Parts{Store: store, State: unseen(), Logger: slog.New(slog.DiscardHandler)})
}

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func update(n int) *batching.Batch {
	version := fmt.Sprint(n)
	return &batching.Batch{Batch: change.Batch{Changes: []change.Change{{Op: change.Update, Stream: pods, Namespace: "ns", Name: "a",
		UID: "u", ResourceVersion: change.ResourceVersion(version), After: []byte(version)}}}}
}

type logged struct {
	sinks.Log
	batches []*change.Batch
}

func (l *logged) Write(_ context.Context, b *change.Batch) (change.Offsets, error) {
	kept := *b
	kept.Changes = slices.Clone(b.Changes)
	for i := range kept.Changes {
		kept.Changes[i].Before = bytes.Clone(kept.Changes[i].Before) // it is valid only until Write returns
	}
	l.batches = append(l.batches, &kept)
	return change.Offsets{}, nil
}

func unseen() *live.Exporter { return live.New(slog.New(slog.DiscardHandler), 0) }

// A batch that depends on a read is not written if the store has forgotten the batch before it.
func TestNoBatchIsWrittenAfterAStaleRead(t *testing.T) {
	const committed = 3
	inventory := func(t *testing.T, c *committer) {
		if err := c.reads.Objects(t.Context(), pods.ID(), func(string, string, change.ResourceVersion) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	position := func(t *testing.T, c *committer) {
		if _, _, err := c.reads.Position(t.Context(), pods.ID()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name         string
		beforeImages bool
		read         func(*testing.T, *committer)
	}{
		{"a before-image", true, func(*testing.T, *committer) {}}, {"a comparison", false, inventory}, {"a position", false, position},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, has := range []int{committed, committed - 1} { // batches in the store
				c := committerAt(storeAt(t, has), committed)
				if !test.beforeImages {
					c.beforeImages = nil
				}
				test.read(t, c)
				err, written := c.commit(t.Context(), update(committed+1)), len(c.log.(*logged).batches)
				if has == committed && (err != nil || written != 1) {
					t.Errorf("error %v, %d batches written, though the store has them all", err, written)
				}
				if has < committed && (!errors.Is(err, checkpoint.ErrBehind) || written != 0) {
					t.Errorf("error %v, %d batches written, though the store has forgotten the last one", err, written)
				}
			}
		})
	}
}

// One check follows each read. Live changes, which read nothing, need none.
func TestEachReadIsCheckedOnce(t *testing.T) {
	r := committerAt(storeAt(t, 1), 1).reads
	if r.needsCheck() {
		t.Error("a check is needed before any read")
	}
	for range 2 {
		if _, _, err := r.Position(t.Context(), pods.ID()); err != nil {
			t.Fatal(err)
		}
		if first, second := r.needsCheck(), r.needsCheck(); !first || second {
			t.Errorf("after a read a check is needed: %v, then %v", first, second)
		}
	}
}
