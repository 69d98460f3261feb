package sqlite_test

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/require"
)

// A process that shares the file reads a store that is being written, while SQLite's log begins again many times. What it reads
// was committed, and never goes back.
func TestTheFileIsReadWhileItsOwnerWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.db")
	store, err := sqlite.Open(t.Context(), path)
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid-1")
	state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
	must(t, err)
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		var random strings.Builder // does not compress, so that the log soon begins again
		for random.Len() < 100_000 {
			random.WriteString(rand.Text())
		}
		body := checkpoint.Pack([]byte(random.String()))
		for seq := uint64(1); ; seq++ {
			var objects []checkpoint.Object
			for _, key := range []string{"a/b", "c/d", "e/f"} {
				objects = append(objects, checkpoint.Object{Key: key, UID: "u", ResourceVersion: change.VersionOf(seq), Body: body})
			}
			err := store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: seq,
				Positions: []change.Position{{Stream: "pods", ResourceVersion: change.VersionOf(seq), Time: time.Now().UTC()}},
				Offsets:   change.Offsets{"k8s.pods": {0: int64(seq)}},
				Streams:   []checkpoint.StreamCommit{{Stream: "pods", Upserts: objects}}})
			select {
			case <-stop:
				ended <- err
				return
			default:
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	var last uint64
	for moved := 0; moved < 30; {
		past := share(t, path)
		must(t, past.Find(t.Context(), "prod"))
		rows, err := past.Select(t.Context(), 0, checkpoint.Window{Limit: 1})
		must(t, err)
		var streams []change.Position
		streams, err = past.Streams(t.Context())
		must(t, err)
		past.Close()
		if len(rows) == 0 {
			continue
		}
		if len(streams) != 1 || change.VersionOf(rows[0].Seq).Compare(streams[0].ResourceVersion) > 0 || rows[0].Offsets["k8s.pods"][0] != int64(rows[0].Seq) || rows[0].Seq < last {
			t.Fatalf("after batch %d it is at batch %d, its stream at %v, its offsets at %v", last, rows[0].Seq, streams, rows[0].Offsets)
		}
		if rows[0].Seq > last {
			moved++
		}
		last = rows[0].Seq
	}
	close(stop)
	must(t, <-ended)
}

func TestAMissingFileIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing.db")
	if _, err := sqlite.Share(t.Context(), path); err == nil {
		t.Fatal("it was opened")
	}
	if all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(all) > 0 {
		t.Fatalf("it made %v", all)
	}
}

func share(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Share(t.Context(), path)
	must(t, err)
	return store
}

var must = require.NoError
