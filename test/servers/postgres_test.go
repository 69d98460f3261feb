package servers_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

func sql(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	check(t, err)
}

func TestRowsOutliveARestartAndAKilledPostgres(t *testing.T) {
	p := servers.SharedPostgres(t)
	url := servers.Database(t)
	sql(t, url, "create table a (n int)")
	check(t, p.Restart(t.Context()))
	sql(t, url, "insert into a values (1)")
	p.Kill()
	check(t, p.Start(t.Context()))
	sql(t, url, "alter table a add check (n = 1)")
}

func TestDatabasesAreApart(t *testing.T) {
	one, two := servers.Database(t), servers.Database(t)
	sql(t, one, "create table a ()")
	sql(t, two, "create table a ()")
}
