package inventory

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
	"kubecdc/internal/dependency"
	"kubecdc/test/checkpointtest"
)

// storeAt returns a real store with a number of batches of slot 0, in epoch 1.
func storeAt(t *testing.T, batches int) checkpoint.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "checkpoint.db"))
	must(t, err)
	t.Cleanup(store.Close)
	checkpointtest.Bind(t, store, "prod", "uid")
	if _, err := store.Acquire(t.Context(), 0, "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	w := writerAt(store, 0)
	for n := range batches {
		must(t, w.commit(t.Context(), update(n+1)))
	}
	return store
}

// writer writes batches of epoch 1, like a session.
type writer struct {
	*Inventory
	logged   *logged
	images   bool // before-images are written
	leftOut  map[change.ResourceVersion]bool
	prepared batching.Prepared
}

// writerAt returns a writer after a batch, without cached bodies. It commits each batch before the next.
func writerAt(store checkpoint.Store, seq uint64) *writer { return writerWith(store, seq, plain()) }

func plain() Settings {
	return Settings{Bodies: true, Owns: func(change.StreamID) bool { return true }, Redactor: func(change.StreamID) Redactor { return nil }}
}

func writerWith(store checkpoint.Store, seq uint64, settings Settings) *writer {
	log := &logged{}
	s := &Slot{Settings: settings, Parts: quietParts(store)}
	return &writer{Inventory: s.inventory(&checkpoint.SlotState{Epoch: 1, Seq: seq}, nil, log.Write), logged: log, images: true}
}

func (w *writer) commit(ctx context.Context, b *batching.Batch) error {
	p := &w.prepared
	p.Batch, p.Offsets = &b.Batch, nil
	p.Epoch, p.Seq = 1, w.Seq()+1
	p.Find()
	if w.images {
		if err := w.Before(ctx, p); err != nil {
			return err
		}
	}
	p.LeaveOut(func(c *change.Change) bool { return w.leftOut[c.ResourceVersion] }, w.images)
	if err := w.Check(ctx, p); err != nil {
		return err
	}
	if err := w.Write(ctx, p); err != nil {
		return err
	}
	defer p.Release()
	return w.Remember(ctx, p)
}

// quietParts returns parts that report nothing.
func quietParts(store checkpoint.Store) Parts {
	state := live.New(slog.New(slog.DiscardHandler), 0)
	return Parts{Store: store, State: state, Watchdog: dependency.NewWatchdog(state, slog.New(slog.DiscardHandler)), Logger: slog.New(slog.DiscardHandler)}
}

var pods = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")

func update(n int) *batching.Batch {
	version := fmt.Sprint(n)
	return &batching.Batch{Batch: change.Batch{Changes: []change.Change{{Op: change.Update, Stream: pods, Namespace: "ns", Name: "a",
		UID: "u", ResourceVersion: change.ResourceVersion(version), After: []byte(version)}}}}
}

type logged struct {
	batches []*change.Batch
	stub    []byte // written instead of the last state, or nil
}

func (l *logged) Write(_ context.Context, b *change.Batch) (change.Offsets, error) {
	own := *b
	own.Changes = slices.Clone(b.Changes)
	for i := range own.Changes {
		own.Changes[i].Before = bytes.Clone(own.Changes[i].Before) // it is valid only until Write returns
	}
	l.batches = append(l.batches, &own)
	if l.stub != nil {
		b.Changes[len(b.Changes)-1].After = l.stub
	}
	return change.Offsets{}, nil
}

// A batch that depends on a read is not written if the store has forgotten the batch before it.
func TestNoBatchIsWrittenAfterAStaleRead(t *testing.T) {
	const committed = 3
	inventory := func(t *testing.T, c *writer) {
		must(t, c.Objects(t.Context(), pods.ID(), func(string, string, change.ResourceVersion) error { return nil }))
	}
	position := func(t *testing.T, c *writer) {
		if _, _, err := c.Position(t.Context(), pods.ID()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name         string
		beforeImages bool
		read         func(*testing.T, *writer)
	}{
		{"a before-image", true, func(*testing.T, *writer) {}}, {"a comparison", false, inventory}, {"a position", false, position},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, has := range []int{committed, committed - 1} { // batches in the store
				c := writerAt(storeAt(t, has), committed)
				if !test.beforeImages {
					c.images = false
				}
				test.read(t, c)
				err, written := c.commit(t.Context(), update(committed+1)), len(c.logged.batches)
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

// Each read is followed by one check. Live changes, which read nothing, need none.
func TestEachReadIsCheckedOnce(t *testing.T) {
	r := writerAt(storeAt(t, 1), 1)
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
