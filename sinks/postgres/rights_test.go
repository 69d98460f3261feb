package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

// The rights that docs/security.md grants to a reader are sufficient to read the log, and its size.
func TestAReaderNeedsNoMoreThanSelect(t *testing.T) {
	database := servers.Database(t)
	sink := open(t, database, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	defer log.Close()
	write(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{event(pods, change.Create, "a", "u1", "1")}})

	u, err := url.Parse(database)
	must(t, err)
	role := pgx.Identifier{"reader-of-" + strings.TrimPrefix(u.Path, "/")}.Sanitize()
	servers.Exec(t, database, "create role "+role+" login password 'pw'; grant usage on schema kubecdc_log to "+role+
		"; grant select on all tables in schema kubecdc_log to "+role)
	u.User = url.UserPassword(strings.Trim(role, `"`), "pw")
	reader, err := postgres.OpenReader(t.Context(), postgres.Config{URL: u.String(), Cluster: "prod"})
	must(t, err)
	defer reader.Close()
	found := 0
	if err := reader.Changes(t.Context(), sinks.Query{}, func(*sinks.Logged) error { found++; return nil }); err != nil || found != 1 {
		t.Errorf("%d changes, %v", found, err)
	}
	if size, err := reader.LogSize(t.Context(), time.Now()); err != nil || size.Bytes == 0 || len(size.Largest) != 1 {
		t.Errorf("the log's size is %+v, %v", size, err)
	}
}
