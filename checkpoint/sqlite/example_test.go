package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
)

// An owner acquires a slot and commits a batch. The next owner finds that batch, and fences the first.
func Example() {
	folder, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "checkpoint.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Bind(ctx, "prod", change.ClusterIdentity{UID: "0b1f4a52-6f0e-4dd8-9f0b-6d1c3a4e5f60"}); err != nil {
		log.Fatal(err)
	}

	first, err := store.Acquire(ctx, 0, "host-1", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	pod := checkpoint.Object{Key: "default/web", UID: "u1", ResourceVersion: "7", Body: checkpoint.Pack([]byte(`{"kind":"Pod"}`))}
	err = store.Commit(ctx, checkpoint.Commit{Epoch: first.Epoch, Seq: first.Seq + 1,
		Positions: []change.Position{{Stream: "pods", ResourceVersion: "9", Time: time.Now()}},
		Streams:   []checkpoint.StreamCommit{{Stream: "pods", Upserts: []checkpoint.Object{pod}}}})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Release(ctx, 0, first.Epoch); err != nil {
		log.Fatal(err)
	}

	second, err := store.Acquire(ctx, 0, "host-2", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	position, _, err := store.Position(ctx, "pods")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("epoch %d, batch %d, pods up to %s\n", second.Epoch, second.Seq, position.ResourceVersion)
	fmt.Println(checkpoint.CompareEpochs(second.Epoch, first.Epoch))
	// Output:
	// epoch 2, batch 1, pods up to 9
	// fenced: another process owns the slot now
}
