package postgres_test

import (
	"testing"
	"time"

	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// The log's size is about that by which the database has grown. What takes most, and the pace, is within a quarter of the truth, though
// only some pages are read. First lists are no growth, and what lives is no history.
func TestTheSizeOfALog(t *testing.T) {
	database := servers.Database(t)
	conn := connect(t, database)
	query := func(sql string) (bytes float64) {
		t.Helper()
		must(t, conn.QueryRow(t.Context(), sql).Scan(&bytes))
		return bytes
	}
	const all = "select pg_database_size(current_database())::float8"
	before := query(all)
	sink := open(t, database, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	defer log.Close()
	reader, err := postgres.OpenReader(t.Context(), postgres.Config{URL: database, Cluster: "another"})
	must(t, err)
	defer reader.Close()
	empty, err := reader.LogSize(t.Context(), time.Now())
	if err != nil || empty.Bytes == 0 || empty.Daily != 0 || len(empty.Largest) != 0 || !empty.Since.IsZero() {
		t.Fatalf("an empty log: %+v, %v", empty, err)
	}
	truth := sinktest.WriteNoise(t, log, 15_000)
	size, err := reader.LogSize(t.Context(), time.Now().Add(6*time.Hour))
	must(t, err)
	t.Logf("%+v of %v", size, truth)
	near := func(what string, got int64, want, within float64) {
		t.Helper()
		if float64(got) < want/within || float64(got) > within*want {
			t.Errorf("%s: %d, want about %.0f", what, got, want)
		}
	}
	near("the log", size.Bytes, query(all)-before, 1.1)
	if time.Since(size.Since).Abs() > 10*time.Minute {
		t.Errorf("since %s", size.Since)
	}
	const changes = "(inhrelid))::float8 from pg_inherits where inhparent = 'kubecdc_log.changes'::regclass"
	if pages := query("select sum(pg_relation_size"+changes) / 8192; pages < 1400 {
		t.Errorf("%.0f pages are too few for a sample", pages)
	}
	scale := query("select sum(pg_total_relation_size"+changes) / (truth["pods"] + truth["nodes"] + truth["events"] + truth["configmaps"])
	near("a day", size.Daily, 4*scale*(truth["pods"]+truth["nodes"]+truth["events"]), 1.33)
	if len(size.Largest) != 3 {
		t.Fatalf("the largest are %v", size.Largest)
	}
	for i, want := range []string{"configmaps", "events", "pods"} {
		if size.Largest[i].Resource != want {
			t.Errorf("%d is %v, want %s", i, size.Largest[i], want)
		}
		near(want, size.Largest[i].Bytes, scale*truth[want], 1.33)
	}
	servers.Exec(t, database, `create table kubecdc_log.older partition of kubecdc_log.changes for values from ('2020-01-01') to ('2020-02-01');
		create temp table copies as select c.*, i from kubecdc_log.changes c, generate_series(1, 5) i where resource = 'events';
		update copies set written = '2020-01-15', n = n + 1000 * i; alter table copies drop column i;
		insert into kubecdc_log.changes select * from copies`)
	sparse, err := reader.LogSize(t.Context(), time.Now().Add(6*time.Hour))
	must(t, err)
	near("a day, if most is older", sparse.Daily, float64(size.Daily), 1.33)
	near("what most is of", sparse.Largest[0].Bytes, 6*scale*truth["events"], 1.33)
	if old, err := reader.LogSize(t.Context(), time.Now().Add(48*time.Hour)); err != nil || old.Daily != 0 || old.Bytes != sparse.Bytes {
		t.Errorf("nothing is written for two days: %+v, %v", old, err)
	}
}
