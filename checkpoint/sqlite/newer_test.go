package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/checkpoint/sqlite"
)

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
	_, past := sqlite.Share(t.Context(), path)
	for _, err := range []error{err, past} {
		if err == nil || !strings.Contains(err.Error(), "made by a newer release") {
			t.Errorf("error is %v", err)
		}
	}
}
