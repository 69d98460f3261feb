package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint"
	"kubecdc/test/servers"
)

// Much is rewritten when a topic was lost, and deleted when the checkpoint is rebuilt. Meanwhile the lease can be renewed:
// otherwise the slot would be given up each time before that has ended.
func TestALeaseIsRenewedWhileALargeInventoryIsRewritten(t *testing.T) {
	database := servers.Database(t)
	store := openBound(t, database)
	state, err := store.Acquire(t.Context(), 0, "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first := checkpoint.StreamCommit{Stream: "pods", Upserts: []checkpoint.Object{{Key: "a", UID: "u", ResourceVersion: "1"}}}
	if err := store.Commit(t.Context(), checkpoint.Commit{Epoch: state.Epoch, Seq: 1, Streams: []checkpoint.StreamCommit{first}}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const fill = `insert into kubecdc.inventory select id, 'ns/' || g, 'u', '1', repeat('x', 500)::bytea from kubecdc.streams, generate_series(1, 100000) g`
	if _, err := conn.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, left string
		do         func() error
	}{
		{"rewrite", `select count(*) from kubecdc.inventory where resource_version not like '-%'`,
			func() error { return store.Rewrite(t.Context(), 0, state.Epoch, []string{"pods"}) }},
		{"clear", `select count(*) from kubecdc.inventory`,
			func() error { return store.Clear(t.Context(), 0, state.Epoch, func(string) bool { return true }) }},
	} {
		done := make(chan error, 1)
		go func() { done <- test.do() }()
		renewed := 0 // while there was more to do
		for left := 1; left > 0; {
			var busy bool
			const look = `select exists (select from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query ~ '^(update|delete from) kubecdc.inventory')`
			if err := conn.QueryRow(t.Context(), look).Scan(&busy); err != nil {
				t.Fatal(err)
			}
			if busy {
				if err := store.Renew(t.Context(), 0, state.Epoch, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.QueryRow(t.Context(), test.left).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if busy && left > 0 {
				renewed++
			}
		}
		if err := <-done; err != nil || renewed == 0 {
			t.Errorf("%s: %v; the lease was renewed %d times meanwhile", test.name, err, renewed)
		}
	}
}
