package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

// A commit of deltas does not write the bases, which are out of line. Each base that is written gets a number of its own there.
func TestACommitOfDeltasDoesNotWriteTheBases(t *testing.T) {
	url := servers.Database(t)
	store := open(t, url)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	state, err := store.Acquire(t.Context(), 0, "a", time.Hour)
	must(t, err)
	conn := servers.Connect(t, url)
	var outOfLine string
	const query = "select reltoastrelid::regclass::text from pg_class where oid = 'kubecdc.inventory'::regclass"
	must(t, conn.QueryRow(t.Context(), query).Scan(&outOfLine))
	objects := pods(50)
	seq := uint64(0)
	commit := func() (written []uint32) {
		seq++
		put := []checkpoint.StreamCommit{{Stream: "pods", Upserts: objects}}
		must(t, store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: seq, Streams: put}))
		rows, err := conn.Query(t.Context(), "select distinct chunk_id from "+outOfLine+" order by chunk_id")
		if err == nil {
			written, err = pgx.CollectRows(rows, pgx.RowTo[uint32])
		}
		if err != nil || len(written) != len(objects) {
			t.Fatal(len(written), err)
		}
		return written
	}
	first := commit()
	again := commit()
	if first[len(first)-1] >= again[0] {
		t.Errorf("bases %d are written again as %d", first, again)
	}
	for i := range objects {
		base, err := objects[i].Body.Unpack()
		must(t, err)
		objects[i].Body = checkpoint.Pack(base).Update([]byte(strings.ReplaceAll(string(base), "09:12", "17:40")))
		if !objects[i].Body.KeepsBase() {
			t.Errorf("of %s there is a new base", objects[i].Key)
		}
	}
	if deltas := commit(); !slices.Equal(deltas, again) {
		t.Errorf("after a commit of deltas the bases are %d, and were %d", deltas, again)
	}
}
