package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"kubecdc/checkpoint/checkpointtest"
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
	if _, err := db.Exec(checkpointtest.Version1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checkpointtest.Upgraded(t, open(t, path))
}
