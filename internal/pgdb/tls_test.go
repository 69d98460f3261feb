package pgdb_test

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"kubecdc/internal/pgdb"
	"kubecdc/test/servers"
)

// Authority, server's and client's certificate are replaced while a database is open: each new connection reads the files again. What
// is wrong with a certificate is said, with what to do.
func TestCertificatesAreRenewed(t *testing.T) {
	servers.Need(t)
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{TLS: true})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	servers.Exec(t, server.URL, "create role client login superuser")
	_, port, err := net.SplitHostPort(server.Address)
	must(t, err)
	open := func(host string, change ...string) (*pgdb.DB, error) {
		files := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {server.CACertFile}, "sslcert": {server.ClientCertFile},
			"sslkey": {server.ClientKeyFile}}
		access := "postgres://client@" + net.JoinHostPort(host, port) + "/kubecdc?" + files.Encode()
		return pgdb.Open(t.Context(), pgdb.Options{URL: strings.NewReplacer(change...).Replace(access), Schema: "kubecdc",
			Migrations: fstest.MapFS{}, Setting: "KUBECDC_CHECKPOINT"})
	}
	db, err := open("localhost")
	must(t, err)
	defer db.Close()
	secure := func() error {
		var user string
		err := db.QueryRow(t.Context(), "select current_user from pg_stat_ssl where ssl and pid = pg_backend_pid()").Scan(&user)
		if err == nil && user != "client" {
			t.Errorf("logged in as %s", user)
		}
		return db.Fail("query", err)
	}
	must(t, secure())
	must(t, server.Recertify(t.Context()))
	if err := secure(); err != nil { // a statement on the connection that the restart has ended
		must(t, secure())
	}

	for name, tc := range map[string]struct {
		host   string
		change []string
		want   string
	}{
		"another authority": {"localhost", []string{"ca.crt", "client.crt"}, "sslrootcert in the URL"},
		"another host name": {"0.0.0.0", nil, "the server's certificate is for other names"},
		"no file":           {"localhost", []string{"ca.crt", "gone.crt"}, "read a file that the URL in KUBECDC_CHECKPOINT names"},
	} {
		if _, err := open(tc.host, tc.change...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	must(t, server.CertifyClient(t.Context(), time.Now().Add(-time.Minute)))
	_ = secure() // on the connection that was ended
	// The server answers and resets the connection, and now and then the reset arrives first.
	for attempts := 1; ; attempts++ {
		err := secure()
		if err != nil && strings.Contains(err.Error(), "refuses the client certificate") {
			break
		}
		if attempts == 20 || err == nil || !strings.Contains(err.Error(), "reset by peer") {
			t.Fatalf("with an expired certificate: %v", err)
		}
	}
	must(t, server.CertifyClient(t.Context(), time.Now().Add(time.Hour)))
	must(t, secure())
	if _, err := open("localhost", "verify-full", "require", "sslcert", "application_name", "sslkey", "fallback_application_name"); err == nil || !strings.Contains(err.Error(), "28000") {
		t.Errorf("without a client certificate: %v", err)
	}
}
