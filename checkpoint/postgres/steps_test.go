package postgres_test

import (
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/test/servers"
)

// A large inventory is marked after the loss of a topic, and deleted before a rebuild, in many transactions. No lease can be
// renewed during a transaction. If one took longer than a lease, the slot would be lost each time.
func TestALargeInventoryIsChangedInSteps(t *testing.T) {
	database := servers.Database(t)
	store := openBound(t, database)
	state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
	must(t, err)
	first := checkpoint.StreamCommit{Stream: "pods", Upserts: []checkpoint.Object{{Key: "a", UID: "u", ResourceVersion: "1"}}}
	must(t, store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: 1, Streams: []checkpoint.StreamCommit{first}}))
	conn := servers.Connect(t, database)
	const fill = `insert into kubecdc.inventory (stream, key, uid, resource_version, body)
		select id, 'ns/' || g, 'u', '1', repeat('x', 500)::bytea from kubecdc.streams, generate_series(1, 100000) g`
	if _, err := conn.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, left string
		do         func() error
	}{
		{"clear", `select count(*) from kubecdc.inventory`,
			func() error {
				return store.Clear(t.Context(), 0, state.Epoch, func(change.StreamID) bool { return true })
			}},
	} {
		last, err := conn.Begin(t.Context())
		must(t, err)
		if _, err := last.Exec(t.Context(), `select from kubecdc.inventory where key = 'ns/99999' for update`); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- test.do() }()
		left := 0
		servers.Await(t, "all but the last step", func() (bool, error) {
			err := last.QueryRow(t.Context(), test.left).Scan(&left)
			return left <= 10000, err
		})
		must(t, last.Rollback(t.Context()))
		if err := <-done; err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := conn.QueryRow(t.Context(), test.left).Scan(&left); err != nil || left > 0 {
			t.Errorf("%s: %d objects are left over, %v", test.name, left, err)
		}
	}
}
