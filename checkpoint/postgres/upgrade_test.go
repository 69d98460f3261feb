package postgres_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/postgres"
	"kubecdc/test/servers"
)

// functions1 has a function of version 1 with the parameters of now and another result, and one that was renamed.
const functions1 = `
create function inventory_page(in_cluster int, in_stream text, in_after text, in_limit int)
  returns table (key text, uid text, resource_version text) language sql as $$ select '', '', '' $$;
create function take_slot() returns void language sql as '';
`

func TestTablesOfVersion1AreUpgraded(t *testing.T) {
	url := servers.Database(t)
	tables, err := os.ReadFile("migrations/00001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	body1 := "update inventory set body = decode('" + checkpointtest.Body1 + "', 'hex') where key = 'a';"
	const version = "create table migrations (version int primary key, run_at timestamptz default now()); " +
		"insert into migrations (version) values (1);"
	if _, err := conn.PgConn().Exec(t.Context(), "create schema kubecdc; set search_path = kubecdc;"+string(tables)+functions1+
		version+checkpointtest.Version1+body1).ReadAll(); err != nil {
		t.Fatal(err)
	}
	readBefore(t, url)
	checkpointtest.Upgraded(t, open(t, url))
}

// readBefore reads the tables of version 1 as exporter status does, which changes nothing.
func readBefore(t *testing.T, url string) {
	t.Helper()
	past, err := postgres.OpenPast(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	if err := past.Find(t.Context(), "prod"); err != nil {
		t.Fatal(err)
	}
	if controls, err := past.LastControls(t.Context()); err != nil || len(controls) > 0 {
		t.Errorf("the last control records are %+v, %v", controls, err)
	}
	if signals, err := past.Signals(t.Context(), false); err != nil || len(signals) > 0 {
		t.Errorf("the signals are %+v, %v", signals, err)
	}
}
