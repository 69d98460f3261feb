package pgdb_test

import (
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"kubecdc/internal/pgdb"
	"kubecdc/test/servers"
)

// A user without the right to create a schema gets the statement that grants it, and can then connect.
func TestAMissingRightIsNamedWithItsGrant(t *testing.T) {
	database := servers.Database(t)
	admin := servers.Connect(t, database)
	u, err := url.Parse(database)
	must(t, err)
	role := "role-of-" + strings.TrimPrefix(u.Path, "/")
	_, err = admin.Exec(t.Context(), "create role "+pgx.Identifier{role}.Sanitize()+" login password 'pw'")
	must(t, err)
	u.User = url.UserPassword(role, "pw")
	open := func() (*pgdb.DB, error) {
		return pgdb.Open(t.Context(), pgdb.Options{URL: u.String(), Schema: "kubecdc", Setting: "KUBECDC_CHECKPOINT",
			Migrations: fstest.MapFS{"migrations/00001_one.sql": {Data: []byte("-- +goose Up\ncreate table kubecdc.one (n int);")}}})
	}
	_, err = open()
	if err == nil {
		t.Fatal("it gets in without the right")
	}
	grant := "grant create on database " + pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize() + " to " + pgx.Identifier{role}.Sanitize()
	if !strings.Contains(err.Error(), grant) {
		t.Fatalf("%v\nwant %s", err, grant)
	}
	_, err = admin.Exec(t.Context(), grant)
	must(t, err)
	db, err := open()
	must(t, err)
	db.Close()
}
