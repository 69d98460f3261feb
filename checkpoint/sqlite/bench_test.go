package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/test/checkpointtest"
)

// BenchmarkCommit commits batches of 1,000 updates with bodies of 4 KB, and reads them back.
func BenchmarkCommit(b *testing.B) {
	store := open(b, filepath.Join(b.TempDir(), "c.db"))
	defer store.Close()
	checkpointtest.Bind(b, store, "prod", "uid")
	state, err := store.Acquire(b.Context(), 0, "a", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	pods := checkpoint.StreamCommit{Stream: "pods"}
	for i := range 1000 {
		body := []byte(`{"spec":[`)
		for j := range 100 {
			body = fmt.Appendf(body, `{"name":"SETTING_%d","value":"%x"},`, j, i*j*7919)
		}
		pods.Upserts = append(pods.Upserts, checkpoint.Object{Key: fmt.Sprint("ns/pod-", i), UID: "0b1f4a52-6f0e-4dd8-9f0b-6d1c3a4e5f60",
			ResourceVersion: change.ResourceVersion(fmt.Sprint(i)), Body: checkpoint.Pack(append(body, "{}]}"...))})
	}
	commit := checkpoint.Commit{Epoch: state.Epoch, Streams: []checkpoint.StreamCommit{pods}}
	for b.Loop() {
		commit.Seq++
		if err := store.Commit(b.Context(), commit); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "upserts/s")
}
