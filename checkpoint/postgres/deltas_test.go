package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/test/servers"
)

// A commit of deltas writes nothing of the bases, which are out of line. A base that is written takes a number of its own there.
func TestACommitOfDeltasDoesNotWriteTheBases(t *testing.T) {
	url := servers.Database(t)
	store := open(t, url)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	state, err := store.Acquire(t.Context(), 0, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	objects := pods(50)
	seq := uint64(0)
	commit := func() (written []uint32) {
		seq++
		put := []checkpoint.StreamCommit{{Stream: "pods", Upserts: objects}}
		if err := store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: seq, Streams: put}); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), "select pg_column_toast_chunk_id(body) from kubecdc.inventory order by key")
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
	for i := range objects {
		base, err := objects[i].Body.Unpack()
		if err != nil {
			t.Fatal(err)
		}
		if again[i] == first[i] {
			t.Errorf("a base that is written again stays number %d", first[i])
		}
		objects[i].Body = checkpoint.Update(base, []byte(strings.ReplaceAll(string(base), "09:12", "17:40")))
	}
	deltas := commit()
	for i, o := range objects {
		if !o.Body.KeepsBase() || deltas[i] != again[i] {
			t.Errorf("the base of %s was written for a delta of %d bytes", o.Key, len(o.Body.Delta))
		}
	}
}
