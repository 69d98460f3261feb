package checkpointtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// CommitManyPartitions commits a batch that moves 120 topics of 6 partitions. Then it commits batches that move 10 of the
// partitions each, until the history has three rows. It is for measuring the size of a row.
func CommitManyPartitions(t testing.TB, store checkpoint.Store) {
	t.Helper()
	Bind(t, store, "prod", "uid-1")
	state, err := store.Acquire(t.Context(), 0, "a", ttl)
	if err != nil {
		t.Fatal(err)
	}
	r, all := rand.New(rand.NewPCG(1, 2)), change.Offsets{}
	for topic := range 120 {
		for p := range 6 {
			all.Merge(change.Offsets{manyTopic(topic): {p: r.Int64N(1e9)}})
		}
	}
	c := checkpoint.Commit{Epoch: state.Epoch, Seq: 1, Offsets: all}
	for rows := 0; rows < 3; c.Seq++ {
		if err := store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		history, err := store.Select(t.Context(), 0, checkpoint.Window{Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		rows, c.Offsets = len(history), change.Offsets{}
		for topic := range 10 {
			c.Offsets.Merge(change.Offsets{manyTopic(topic): {topic % 6: r.Int64N(1e9)}})
		}
	}
}

// CommitManyMore commits one more batch, after CommitManyPartitions.
func CommitManyMore(t testing.TB, store checkpoint.Store) {
	t.Helper()
	state, err := store.Acquire(t.Context(), 0, "a", ttl)
	if err != nil {
		t.Fatal(err)
	}
	moved := change.Offsets{manyTopic(0): {0: 2e6}}
	if err := store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: state.Seq + 1, Offsets: moved}); err != nil {
		t.Fatal(err)
	}
}

func manyTopic(n int) string { return fmt.Sprintf("kubecdc.resources-%03d.group.example.com", n) }
