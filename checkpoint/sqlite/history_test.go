package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"kubecdc/test/checkpointtest"
)

// A row of the history takes as much room as moved in its second, not as there are partitions.
func TestHistoryCostsWhatMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	store := open(t, path)
	checkpointtest.CommitManyPartitions(t, store)
	store.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var most, least int
	const look = `select max(length(offsets)), min(length(offsets)) from checkpoints`
	if err := db.QueryRow(look).Scan(&most, &least); err != nil {
		t.Fatal(err)
	}
	t.Logf("offsets of 720 partitions: %d bytes; of a second in which 10 moved: %d", most, least)
	if least*5 > most {
		t.Errorf("a second in which 10 of 720 partitions moved takes %d bytes, all of them %d", least, most)
	}
}
