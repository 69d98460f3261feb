package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/test/servers"
)

// Whatever search_path a session has, no table is created or searched in it.
func TestNothingLandsInPublic(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"direct": servers.Database, "pooled": servers.PooledDatabase} {
		t.Run(name, func(t *testing.T) {
			u := database(t)
			exec(t, "alter database "+quotedName(t, u)+" set search_path = public")
			openBound(t, withChange(t, u, func(u *url.URL) { u.RawQuery += "&search_path=public" }))
			if n := count(t, u, "select count(*) from pg_tables where schemaname = 'public'"); n != 0 {
				t.Errorf("%d tables in public", n)
			}
			if n := count(t, u, "select count(*) from kubecdc.clusters"); n != 1 {
				t.Errorf("%d clusters in schema kubecdc, want 1", n)
			}
		})
	}
}

func TestWhatAPoolerRefusesIsNamed(t *testing.T) {
	pooled := servers.PooledDatabase(t)
	err := openError(t, withChange(t, pooled, func(u *url.URL) { u.RawQuery += "&statement_timeout=10s" }))
	if !strings.Contains(err.Error(), "unsupported startup parameter: statement_timeout") || !strings.Contains(err.Error(), "take it out of the URL") {
		t.Errorf("a setting of the session: %v", err)
	}

	byStatement, err := servers.StartPgBouncer(t.Context(), servers.SharedPostgres(t), "statement")
	must(t, err)
	defer byStatement.Stop()
	err = openError(t, withChange(t, pooled, func(u *url.URL) { u.Host = byStatement.Address }))
	if !strings.Contains(err.Error(), "must pool by transaction or by session") {
		t.Errorf("pooling by statement: %v", err)
	}
}

// With sslmode=prefer, the default, the attempt without TLS returns the error.
func TestErrorsTellTheAttemptThatGotFurthest(t *testing.T) {
	err := openError(t, withChange(t, servers.Database(t), func(u *url.URL) {
		u.User, u.RawQuery = url.UserPassword("kubecdc", "secret-pw-2"), ""
	}))
	if strings.Contains(err.Error(), "TLS") || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("sslmode=prefer: %v", err)
	}
	err = openError(t, withChange(t, servers.Database(t), func(u *url.URL) { u.RawQuery = "sslmode=require" }))
	if !strings.Contains(err.Error(), "server refused TLS connection") {
		t.Errorf("sslmode=require: %v", err)
	}
}

// quotedName returns the quoted name of the database in a URL.
func quotedName(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	must(t, err)
	return pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
}

func count(t *testing.T, raw, query string) (n int) {
	t.Helper()
	conn := servers.Connect(t, raw)
	must(t, conn.QueryRow(t.Context(), query, pgx.QueryExecModeExec).Scan(&n))
	return n
}
