package sqlite_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/crashfs"
	"kubecdc/test/sinktest"
)

const poweredObjects = 20

// The power may be lost at any moment. Afterwards the log has each batch that was acknowledged, and perhaps the next one. Each
// batch has all its changes, byte for byte. The next owner continues after it.
func TestALossOfPowerKeepsWhatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	recording := crashfs.Record(t, path)
	writeUntilPowerIsLost(t, path, recording)
	recording.Stop()
	crashes, further := 0, 0
	for crash := range recording.Crashes(300, rand.Uint64()) {
		have := batchesAfter(t, crash)
		if have < crash.Acknowledged || have > crash.Acknowledged+1 {
			t.Fatalf("%s: batch %d was acknowledged, and the log has batch %d", crash.What, crash.Acknowledged, have)
		}
		if crashes++; have > crash.Acknowledged {
			further++
		}
	}
	t.Logf("%d crashes, of which %d preserved a batch that was not acknowledged yet", crashes, further)
	if crashes < 150 || further == 0 {
		t.Error("the recording lacks moments")
	}
}

// poweredBatch changes every object once.
func poweredBatch(seq uint64) *change.Batch {
	b := &change.Batch{Epoch: 1, Seq: seq}
	for i := range poweredObjects {
		version := int64(seq)*100 + int64(i)
		c := change.Change{Stream: pods, Op: change.Update, Namespace: "default", Name: fmt.Sprint("web-", i), Time: time.Now(),
			UID: fmt.Sprintf("0b1f4a52-6f0e-4dd8-9f0b-%012d", i), ResourceVersion: change.VersionOf(uint64(version)), After: podOf(i, version)}
		if seq == 1 {
			c.Op = change.Create
		} else {
			c.Before = podOf(i, version-100)
		}
		b.Changes = append(b.Changes, c)
	}
	return b
}

func writeUntilPowerIsLost(t *testing.T, path string, recording *crashfs.Recording) {
	t.Helper()
	file := own(t, path)
	sink := newSink(t, file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID})
	if _, err := file.DB().Exec(`pragma wal_autocheckpoint(100)`); err != nil {
		t.Fatal(err)
	}
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	defer opened.Log.Close()
	for seq := uint64(1); seq <= 40; seq++ {
		if _, err := opened.Log.Write(t.Context(), poweredBatch(seq)); err != nil {
			t.Fatal(err)
		}
		recording.Acknowledge(seq)
	}
}

// batchesAfter opens what is left after a crash, writes a batch, and returns the last batch that was there before.
func batchesAfter(t *testing.T, crash *crashfs.Crash) (have uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	crash.Restore(t, path)
	file, err := sqlitefile.Own(t.Context(), path)
	if err != nil {
		t.Fatalf("%s: %v", crash.What, err)
	}
	defer file.Close()
	sink := newSink(t, file, sqlite.Config{Cluster: sinktest.Name, ClusterUID: sinktest.UID})
	opened, err := sink.Open(t.Context(), 0, 2, sinks.Durable{})
	if err != nil {
		t.Fatalf("%s: %v", crash.What, err)
	}
	defer opened.Log.Close()
	have = opened.Last
	next := poweredBatch(have + 1)
	next.Epoch = 2
	if _, err := opened.Log.Write(t.Context(), next); err != nil {
		t.Fatalf("%s: %v", crash.What, err)
	}
	wantFullBatches(t, file, have+1, crash.What)
	return have
}

// wantFullBatches verifies every change of every batch, with its body.
func wantFullBatches(t *testing.T, file *sqlitefile.File, last uint64, what string) {
	t.Helper()
	r, err := sqlite.NewReader(t.Context(), file, sinktest.Name)
	must(t, err)
	found := map[uint64]int{}
	err = r.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		var name int
		_, err := fmt.Sscanf(strings.TrimPrefix(l.Name, "web-"), "%d", &name)
		if want := podOf(name, int64(l.Batch)*100+int64(name)); err == nil && !bytes.Equal(l.After, want) {
			err = fmt.Errorf("%s of batch %d is %s", l.Name, l.Batch, l.After)
		}
		found[l.Batch]++
		return err
	})
	for seq := uint64(1); seq <= last && err == nil; seq++ {
		if found[seq] != poweredObjects {
			err = fmt.Errorf("batch %d has %d changes", seq, found[seq])
		}
	}
	if err != nil || len(found) != int(last) {
		t.Fatalf("%s: %d batches, of %d; %v", what, len(found), last, err)
	}
}
