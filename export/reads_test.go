package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/export/batching"
	"kubecdc/export/dependency"
	"kubecdc/export/ownership"
	"kubecdc/sinks"
)

// storeAt is a real store that has so many batches of slot 0, under epoch 1.
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

// committerAt is one of epoch 1 that has come to a batch, and remembers no body.
func committerAt(store checkpoint.Store, seq uint64) *committer {
	r := &reads{store: store}
	return &committer{epoch: 1, seq: seq, cluster: "prod", store: store, reads: r, log: &logged{}, befores: newBefores(r, (&slot{}).rewriteOf, 0),
		observer: quiet{}, watermarks: map[change.StreamID]time.Time{}, watchdog: dependency.NewWatchdog(quiet{}, slog.New(slog.DiscardHandler)), reach: ownership.NewReachability(time.Minute, nil)}
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
	l.batches = append(l.batches, b)
	return change.Offsets{}, nil
}

type quiet struct{ Observer }

func (quiet) Committed(Committed) {}

func TestNothingIsWrittenThatFollowsFromAForgetfulStore(t *testing.T) {
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
		name    string
		befores bool
		read    func(*testing.T, *committer)
	}{
		{"a before-image", true, func(*testing.T, *committer) {}}, {"a comparison", false, inventory}, {"a position", false, position},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, has := range []int{committed, committed - 1} { // the store, of what was committed
				c := committerAt(storeAt(t, has), committed)
				if !test.befores {
					c.befores = nil
				}
				test.read(t, c)
				err, written := c.commit(t.Context(), update(committed+1)), len(c.log.(*logged).batches)
				if has == committed && (err != nil || written != 1) {
					t.Errorf("error %v, %d batches written, though nothing is forgotten", err, written)
				}
				if has < committed && (!errors.Is(err, checkpoint.ErrBehind) || written != 0) {
					t.Errorf("error %v, %d batches written, though the last is forgotten", err, written)
				}
			}
		})
	}
}

// A read costs one check, and live changes cost none.
func TestEachReadIsCheckedOnce(t *testing.T) {
	r := &reads{store: storeAt(t, 1)}
	if r.unchecked() {
		t.Error("before any read")
	}
	for range 2 {
		if _, _, err := r.Position(t.Context(), pods.ID()); err != nil {
			t.Fatal(err)
		}
		if first, second := r.unchecked(), r.unchecked(); !first || second {
			t.Errorf("after a read: %v, then %v", first, second)
		}
	}
}
