package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/checkpoint/sqlite"
)

func TestAFileOfANewerReleaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	open(t, path).Close()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	if _, err := db.Exec("insert into migrations (version_id, is_applied) values (999, true)"); err != nil {
		t.Fatal(err)
	}
	must(t, db.Close())
	_, err = sqlite.Open(t.Context(), path)
	_, shared := sqlite.Share(t.Context(), path)
	for _, err := range []error{err, shared} {
		if err == nil || !strings.Contains(err.Error(), "made by a newer release") {
			t.Errorf("error is %v", err)
		}
	}
}

// A command does not change a file whose tables no exporter has migrated yet.
func TestAFileOfAnOlderReleaseIsLeftAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := sqlite.Share(t.Context(), path); err == nil || !strings.Contains(err.Error(), "exporter run makes them in a new file") {
		t.Errorf("error is %v", err)
	}
	if file, err := os.ReadFile(path); err != nil || len(file) > 0 {
		t.Errorf("it has %d bytes now, %v", len(file), err)
	}
}
