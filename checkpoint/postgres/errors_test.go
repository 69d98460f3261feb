package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint/postgres"
	"kubecdc/internal/pgdb"
	"kubecdc/test/servers"
)

// exec runs statements on the shared server.
func exec(t *testing.T, statements ...string) {
	t.Helper()
	ctx := context.Background() // also for cleanups after the test's context has ended
	conn := servers.Connect(t, servers.SharedPostgres(t).URL)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func openError(t *testing.T, url string) error {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err == nil {
		store.Close()
		t.Fatal("opened")
	}
	if strings.Contains(err.Error(), "secret-pw") {
		t.Fatalf("the password is in %v", err)
	}
	return err
}

// withChange changes a part of a URL.
func withChange(t *testing.T, raw string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	must(t, err)
	change(u)
	return u.String()
}

func TestMalformedURLsDoNotShowThePassword(t *testing.T) {
	for _, raw := range []string{
		"postgres://u:secret-pw/x@h:5432/d", "postgres://u:secret-pw%zz@h/d",
		"postgres://u:secret-pw@h:port/d", "postgres://u:secret-pw@h/d?sslmode=what", "postgres://u:secret-pw@h/d?pool_max_conns=x",
		"host=h password=secret-pw port=x", "postgres://u@h/d?password=secret-pw&connect_timeout=x", " postgres://u:secret-pw@h/d",
		"postgres://u:x@secret-pw@h:1:2/d",
	} {
		if err := openError(t, raw); !errors.Is(err, pgdb.ErrURL) || !strings.Contains(err.Error(), "KUBECDC_CHECKPOINT") {
			t.Errorf("%s: error is %v", raw, err)
		}
	}
}

// An option that can't work is refused. The error names one that does.
func TestOptionsThatCantWorkAreRefused(t *testing.T) {
	database := servers.Database(t)
	for _, test := range []struct{ option, says, instead string }{
		{"default_query_exec_mode=exec", "cache_describe", "default_query_exec_mode=cache_describe"},
		{"default_query_exec_mode=simple_protocol", "leave it out", ""},
		{"pool_max_conns=1", "less than the 2", "pool_max_conns=2"},
	} {
		if err := openError(t, database+"&"+test.option); !errors.Is(err, pgdb.ErrURL) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error is %v", test.option, err)
		}
		openBound(t, database+"&"+test.instead)
	}
}

// Each error says what to do, and after that the connection works.
func TestErrorsSayWhatToDo(t *testing.T) {
	role := pgx.Identifier{servers.UniqueName()}
	ofRole := role.Sanitize()
	exec(t, "create role "+ofRole+" login password 'secret-pw'")
	t.Cleanup(func() { exec(t, "drop role "+ofRole) }) // after its databases were dropped
	named := func(database string) string {
		u, err := url.Parse(database)
		must(t, err)
		return pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	}
	login := func(u *url.URL) { u.User = url.UserPassword(role[0], "secret-pw") }
	database, another, empty := servers.Database(t), servers.Database(t), servers.Database(t)
	mine, missing := withChange(t, another, login), servers.UniqueName()
	t.Cleanup(func() { exec(t, "drop database if exists "+pgx.Identifier{missing}.Sanitize()) })

	for _, test := range []struct {
		name, url string
		before    string
		hint      string
		remedy    string // a statement, or empty for another URL
		again     string // the URL after it, or empty for the same
	}{
		{"nothing listens", withChange(t, database, func(u *url.URL) { u.Host = unusedAddress(t) }), "", "is the database running", "", database},
		{"no such host", withChange(t, database, func(u *url.URL) { u.Host = "no-such-host.invalid" }), "", "is the database running", "", database},
		{"no TLS", withChange(t, database, func(u *url.URL) { u.RawQuery = "sslmode=require" }), "", "which sslmode in the URL demands", "", database},
		{"wrong password", withChange(t, database, func(u *url.URL) { u.User = url.UserPassword("kubecdc", "secret-pw-2") }), "", "check user and password", "", database},
		{"no such database", withChange(t, database, func(u *url.URL) { u.Path = "/" + missing }), "", "create the database",
			"create database " + pgx.Identifier{missing}.Sanitize(), ""},
		{"no right to create", mine, "", "grant create on database " + named(another) + " to " + ofRole, "grant create on database " + named(another) + " to " + ofRole, ""},
		{"the schema of another user", withChange(t, database, login), "", "grant OWNER to " + ofRole, "grant kubecdc to " + ofRole, ""},
		{"too many connections", mine, "alter role " + ofRole + " connection limit 0", "connection limit", "alter role " + ofRole + " connection limit -1", ""},
		{"read-only", empty, "alter database " + named(empty) + " set default_transaction_read_only = on", "default_transaction_read_only",
			"alter database " + named(empty) + " set default_transaction_read_only = off", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.before != "" {
				exec(t, test.before)
			}
			err := openError(t, test.url)
			if !strings.Contains(err.Error(), test.hint) {
				t.Errorf("no hint in %v", err)
			}
			if test.remedy != "" {
				exec(t, test.remedy)
			}
			store, err := postgres.Open(t.Context(), postgres.Config{URL: cmp.Or(test.again, test.url)})
			if err != nil {
				t.Fatalf("after the remedy: %v", err)
			}
			store.Close()
		})
	}
}

func unusedAddress(t *testing.T) string {
	t.Helper()
	address, err := servers.FreeAddress()
	must(t, err)
	return address
}

func TestASchemaOfANewerReleaseIsRefused(t *testing.T) {
	url := servers.Database(t)
	openBound(t, url)
	servers.Exec(t, url, "insert into kubecdc.migrations (version) values (999)")
	if err := openError(t, url); !strings.Contains(err.Error(), "newer release") {
		t.Fatal(err)
	}
	if _, err := postgres.OpenPast(t.Context(), postgres.Config{URL: url}); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("reading its history: %v", err)
	}
}
