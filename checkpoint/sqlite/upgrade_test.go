package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"kubecdc/checkpoint/checkpointtest"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/internal/schema"
)

func TestTablesOfVersion1AreUpgraded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := os.ReadFile("migrations/00001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	first := fstest.MapFS{"migrations/00001_tables.sql": {Data: tables}}
	provider, err := schema.Provider(goose.DialectSQLite3, db, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Up(t.Context(), provider); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(checkpointtest.Version1 + "update inventory set body = x'" + checkpointtest.Body1 + "' where key = 'a';"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checkpointtest.Upgraded(t, open(t, path))
}

func TestAFileOfANewerReleaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	open(t, path).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("insert into migrations (version_id, is_applied) values (999, true)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), path)
	_, past := sqlite.OpenPast(t.Context(), path)
	for _, err := range []error{err, past} {
		if err == nil || !strings.Contains(err.Error(), "made by a newer release") {
			t.Errorf("error is %v", err)
		}
	}
}
