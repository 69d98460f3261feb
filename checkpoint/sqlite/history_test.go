package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"kubecdc/test/checkpointtest"
)

// The size of a row in the history depends on what moved in its second, not on the number of partitions.
func TestHistoryCostsWhatMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	store := open(t, path)
	checkpointtest.CommitManyPartitions(t, store)
	store.Close()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	var most, least int
	const query = `select max(length(offsets)), min(length(offsets)) from checkpoints`
	must(t, db.QueryRow(query).Scan(&most, &least))
	t.Logf("offsets of 720 partitions: %d bytes; of a second in which 10 moved: %d", most, least)
	if least*5 > most {
		t.Errorf("a second in which 10 of 720 partitions moved takes %d bytes, all of them %d", least, most)
	}
}
