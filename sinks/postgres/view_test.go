package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
	"kubecdc/test/whoview"
)

// The view names a requester only if that is certain, as history does.
func TestTheViewNamesWhoIsCertain(t *testing.T) {
	database := servers.Database(t)
	sink := open(t, database, "prod")
	defer sink.Close()
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: database, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	conn := servers.Connect(t, database)
	whoview.Run(t, sink, r, "kubecdc_log.changes_by", func(query string) ([]string, error) {
		rows, _ := conn.Query(t.Context(), query)
		return pgx.CollectRows(rows, pgx.RowTo[string])
	})
}
