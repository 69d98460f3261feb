package sqlite_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/checkpoint/sqlite"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/crashfs"
)

// The power fails at any moment, while SQLite's write-ahead log begins again and again. The disk then has a committed state,
// which is never older than the last acknowledged commit.
func TestALossOfPowerKeepsWhatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	recording := crashfs.Record(t, path)
	commitStamped(t, path, recording)
	recording.Stop()
	crashes, begun := 0, map[bool]int{}
	for crash := range recording.Crashes(400, rand.Uint64()) {
		path := filepath.Join(t.TempDir(), "c.db")
		crash.Restore(t, path)
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", crash.What, err)
		}
		checkpointtest.Bind(t, store, "prod", "uid")
		have := checkpointtest.WantAtomic(t, store, "parent").Seq
		if have < crash.Acknowledged || have > crash.Acknowledged+1 {
			t.Fatalf("%s: batch %d was acknowledged, and the file has batch %d", crash.What, crash.Acknowledged, have)
		}
		store.Close()
		crashes++
		begun[have > crash.Acknowledged]++
	}
	t.Logf("%d crashes, of which %d preserved a commit that was not acknowledged yet", crashes, begun[true])
	if crashes < 200 || begun[true] == 0 {
		t.Errorf("%d crashes, of which %d after a commit was on the disk: the recording lacks them", crashes, begun[true])
	}
}

// commitStamped commits batch after batch. After every few of them it moves SQLite's log to the database.
func commitStamped(t *testing.T, path string, recording *crashfs.Recording) {
	t.Helper()
	file, err := sqlitefile.Own(t.Context(), path)
	must(t, err)
	defer file.Close()
	store, err := sqlite.In(t.Context(), file)
	must(t, err)
	_, err = file.DB().Exec(`pragma wal_autocheckpoint(100)`)
	must(t, err)
	checkpointtest.Bind(t, store, "prod", "uid")
	state, err := store.Acquire(t.Context(), 0, "a", time.Hour)
	must(t, err)
	for seq := uint64(1); seq <= 30; seq++ {
		must(t, store.Commit(t.Context(), checkpointtest.StampedCommit(state.Epoch, seq)))
		recording.Acknowledge(seq)
	}
}
