package postgres_test

import (
	"testing"

	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

// The size of a row in the history depends on what moved in its second, not on the number of partitions. The first row of the
// next hour is complete, so no read goes back further.
func TestHistoryCostsWhatMoved(t *testing.T) {
	url := servers.Database(t)
	store := open(t, url)
	defer store.Close()
	checkpointtest.CommitManyPartitions(t, store)
	db := servers.Connect(t, url)
	var most, least int
	const query = `select max(pg_column_size(c.*)), min(pg_column_size(c.*)) from kubecdc.checkpoints c`
	must(t, db.QueryRow(t.Context(), query).Scan(&most, &least))
	t.Logf("a row with 720 partitions: %d bytes; of a second in which 10 moved: %d", most, least)
	if least*5 > most {
		t.Errorf("a second in which 10 of 720 partitions moved takes %d bytes, all of them %d", least, most)
	}
	if _, err := db.Exec(t.Context(), `update kubecdc.checkpoints set second = second - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	checkpointtest.CommitManyMore(t, store)
	var next int
	must(t, db.QueryRow(t.Context(), `select pg_column_size(c.*) from kubecdc.checkpoints c order by second desc limit 1`).Scan(&next))
	if next < most*9/10 {
		t.Errorf("the first row of an hour takes %d bytes, a complete one %d", next, most)
	}
}
