package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/checkpointtest"
)

// BenchmarkUpdates reads the bodies of 1,000 of 10,000 objects of 3 KB, and commits their deltas. This is the cost of a batch to
// this process.
func BenchmarkUpdates(b *testing.B) {
	for _, bytes := range []int{50, 900, 1300} {
		b.Run(fmt.Sprint("delta-", bytes), func(b *testing.B) { benchmarkUpdates(b, bytes) })
	}
}

func benchmarkUpdates(b *testing.B, bytes int) {
	const objects, batch = 10_000, 1000
	store := open(b, filepath.Join(b.TempDir(), "c.db"))
	defer store.Close()
	commit := committer(b, store)
	random := rand.New(rand.NewPCG(1, 2))
	firstList(objects, batch, commit)
	started := cpu()
	for b.Loop() {
		keys := make([]string, batch)
		for i, j := range random.Perm(objects)[:batch] {
			keys[i] = keyOf(j)
		}
		must(b, store.Bodies(b.Context(), "pods", keys, func(string, checkpoint.Body) error { return nil }))
		commit(keys, checkpoint.Body{Delta: make([]byte, bytes)})
	}
	b.ReportMetric(float64((cpu()-started).Nanoseconds())/float64(b.N*batch), "cpu-ns/update")
}

func BenchmarkFirstList(b *testing.B) {
	const objects, batch = 50_000, 300
	started := cpu()
	for b.Loop() {
		store := open(b, filepath.Join(b.TempDir(), "c.db"))
		firstList(objects, batch, committer(b, store))
		store.Close()
	}
	b.ReportMetric(float64((cpu()-started).Nanoseconds())/float64(b.N*objects), "cpu-ns/object")
}

func keyOf(i int) string { return fmt.Sprintf("team-%05d/pod-%x-%d", i/200, i*7919, i) }

// firstList commits objects with a new body, in the order of their keys.
func firstList(objects, batch int, commit func(keys []string, body checkpoint.Body)) {
	for from := 0; from < objects; from += batch {
		var keys []string
		for i := range batch {
			keys = append(keys, keyOf(from+i))
		}
		commit(keys, checkpoint.Body{Base: make([]byte, 2900)})
	}
}

func committer(b *testing.B, store *sqlite.Store) func(keys []string, body checkpoint.Body) {
	checkpointtest.Bind(b, store, "prod", "uid")
	state, err := store.Acquire(b.Context(), 0, "a", time.Hour)
	must(b, err)
	seq := uint64(0)
	return func(keys []string, body checkpoint.Body) {
		seq++
		pods := checkpoint.StreamCommit{Stream: "pods"}
		for _, key := range keys {
			pods.Upserts = append(pods.Upserts, checkpoint.Object{Key: key, UID: "0b1f4a52-6f0e-4dd8-9f0b-6d1c3a4e5f60",
				ResourceVersion: change.ResourceVersion(fmt.Sprint(10_000_000 + seq)), Body: body})
		}
		c := checkpoint.Commit{Epoch: state.Epoch, First: seq, Seq: seq, Streams: []checkpoint.StreamCommit{pods}}
		must(b, store.Commit(b.Context(), c))
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
