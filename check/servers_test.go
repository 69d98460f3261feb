package check

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/config"
	"kubecdc/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The role's search_path gives the database another clock and another version than the server has.
func TestTheClockAndTheVersionOfADatabaseAreCompared(t *testing.T) {
	database := servers.Database(t)
	conn := servers.Connect(t, database)
	check := func() string {
		r := &report{ctx: t.Context(), settings: &config.Config{}}
		r.settings.Sink.Kind = "stdout"
		r.settings.Checkpoint.Location = config.DSN(database)
		r.checkDatabases()
		var text []string
		for _, f := range r.findings {
			text = append(text, f.State+" "+f.Check+" "+f.Message)
		}
		return strings.Join(text, "\n")
	}
	if text := check(); text != "" {
		t.Errorf("of a right database check says %s", text)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	name := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	_, err = conn.Exec(t.Context(), `create schema other;
		create function other.clock_timestamp() returns timestamptz language sql as 'select pg_catalog.clock_timestamp() - interval ''1 hour''';
		create function other.current_setting(name text) returns text language sql as
			'select case name when ''server_version_num'' then ''120009'' else pg_catalog.current_setting(name) end';
		alter database `+name+` set search_path = other, pg_catalog`)
	if err != nil {
		t.Fatal(err)
	}
	text := check()
	for _, want := range []string{"warning checkpoint its clock is 1h0m0s behind this machine's", "Postgres before 13 is not supported, and this is 12"} {
		if !strings.Contains(text, want) {
			t.Errorf("check does not say %q but\n%s", want, text)
		}
	}
}
