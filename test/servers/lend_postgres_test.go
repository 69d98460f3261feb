package servers_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

// The next test gets the same server, running, without what was in it: whatever a test did to it.
func TestADatabaseServerIsLentAgainEmpty(t *testing.T) {
	var dir string
	for _, do := range []func(*servers.Postgres){
		func(p *servers.Postgres) {},
		func(p *servers.Postgres) { p.Kill() },
		func(p *servers.Postgres) { _, _ = p.CreateDatabase(t.Context(), "another") },
		func(p *servers.Postgres) {},
	} {
		t.Run("", func(t *testing.T) {
			p := servers.OwnPostgres(t, servers.PostgresOptions{})
			if dir != "" && dir != p.Dir {
				t.Error("it is another server")
			}
			dir = p.Dir
			conn, err := pgx.Connect(t.Context(), p.URL)
			check(t, err)
			defer conn.Close(t.Context())
			var left int
			if err := conn.QueryRow(t.Context(), `select (select count(*) from pg_database where not datistemplate) - 2 +
				(select count(*) from pg_roles where oid >= 16384) + (select count(*) from pg_settings where setting = 'Asia/Tokyo') + (select count(*) from pg_class where relname = 'left')`).Scan(&left); err != nil || left != 0 {
				t.Errorf("%d things are left, %v", left, err)
			}
			if _, err := conn.Exec(t.Context(), "create table \"left\" (); create role visitor; alter role kubecdc set timezone = 'Asia/Tokyo'"); err != nil {
				t.Fatal(err)
			}
			do(p)
		})
	}
}
