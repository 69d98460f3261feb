package postgres_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/checkpoint/postgres"
	"kubecdc/test/checkpointtest"
	"kubecdc/test/servers"
)

// A changed password is read from its file at the next connect. Until then the error says what to do.
func TestAChangedPasswordIsReadAnew(t *testing.T) {
	t.Run("from the setting's file", func(t *testing.T) {
		changePassword(t, "read KUBECDC_CHECKPOINT_PASSWORD_FILE", func(file, u string) postgres.Config {
			return postgres.Config{URL: u, PasswordFile: file}
		})
	})
	t.Run("from a file as libpq has them", func(t *testing.T) {
		changePassword(t, "password", func(file, u string) postgres.Config { // libpq accepts a missing file
			return postgres.Config{URL: u + "&passfile=" + url.QueryEscape(file)}
		})
	})
}

func changePassword(t *testing.T, missing string, config func(file, url string) postgres.Config) {
	proxy, err := servers.NewProxy(servers.SharedPostgres(t).Address)
	must(t, err)
	defer proxy.Close()
	role := pgx.Identifier{servers.UniqueName()}
	exec(t, "create role "+role.Sanitize()+" login password 'secret-pw-1'")
	t.Cleanup(func() { exec(t, "drop role "+role.Sanitize()) })
	database := servers.Database(t)
	exec(t, "grant create on database "+quotedName(t, database)+" to "+role.Sanitize())
	file := filepath.Join(t.TempDir(), "password")
	settings := config(file, withChange(t, database, func(u *url.URL) { u.Host, u.User = proxy.Address, url.User(role[0]) }))
	line := "" // in the format of libpq's files
	if settings.PasswordFile == "" {
		line = "*:*:*:*:"
	}
	write(t, file, line+"secret-pw-1\n")

	store, err := postgres.Open(t.Context(), settings)
	must(t, err)
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	acquire := func() error { _, err := store.Acquire(t.Context(), 0, "a", time.Minute); return err }

	exec(t, "alter role "+role.Sanitize()+" password 'secret-pw-2'")
	proxy.Drop()
	err = acquire()
	for strings.Contains(errorText(err), "reset by peer") { // an idle connection
		err = acquire()
	}
	if !strings.Contains(errorText(err), "in the file of the password") || strings.Contains(errorText(err), "secret-pw") {
		t.Errorf("with the old password: %v", err)
	}
	must(t, os.Remove(file))
	if err := acquire(); !strings.Contains(errorText(err), missing) {
		t.Errorf("without the file: %v", err)
	}
	write(t, file, line+"secret-pw-2\n")
	if err := acquire(); err != nil {
		t.Errorf("with the new password: %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
