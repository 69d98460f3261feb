package postgres_test

import (
	"os"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

func TestTablesOfVersion1AreUpgraded(t *testing.T) {
	url := servers.Database(t)
	tables, err := os.ReadFile("migrations/00001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	const version1 = `
		create function write_batch(in_cluster text) returns text language sql as $$ select '' $$;
		insert into slots (cluster, slot, epoch, seq, known) values ('prod', 0, 1, 8, 7);
		insert into objects values ('prod', '', 'pods', '', e'b\x01', 'v1', 'Pod', 'u', '1', now(), 'pods', '{}');
		create table migrations (version int primary key, run_at timestamptz default now());
		insert into migrations (version) values (1);`
	rows(t, url, "create schema kubecdc_log;"+string(tables)+version1)
	sink := open(t, url, "prod")
	defer sink.Close()
	log, _ := openTail(t, sink, 0, 2, sinks.Durable{Seq: 8})
	defer log.Close()
	write(t, log, &change.Batch{Epoch: 2, Seq: 9, Changes: []change.Change{event(pods, change.Create, "a", "u1", "1")}})
	wantRows(t, url, "select seq, checkpointed from slots", "9|8")
	wantRows(t, url, "select count(*) from objects where name = e'b\\x01\\x02'", "1")
	wantRows(t, url, "select happened = time, happened_from, managers, fields_changed from changes", "t|exporter|null|null")
}
