package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/checkpointtest"
)

func TestContract(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, filepath.Join(t.TempDir(), "c.db")) })
}

// A process that shares the file has a store like its owner's. Epochs guard both.
func TestContractOfASharedFile(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		path := filepath.Join(t.TempDir(), "c.db")
		t.Cleanup(open(t, path).Close)
		return share(t, path)
	})
}

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path)
	must(t, err)
	return store
}

func TestFilesAreReadableByTheirOwnerOnly(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state", "kube cdc")
	store := open(t, filepath.Join(folder, "a%20b?#.db"))
	defer store.Close()
	checkpointtest.Bind(t, store, "prod", "uid")
	wantMode(t, folder, 0o700)
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, error %v: the database and its log were expected", files, err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "a%20b?#.db") {
			t.Errorf("there is a file %s", f.Name())
		}
		wantMode(t, filepath.Join(folder, f.Name()), 0o600)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != want {
		t.Errorf("mode of %s is %o, not %o", path, got, want)
	}
}

func TestASecondOpenSaysThatTheFileIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	first := open(t, path)
	_, err := sqlite.Open(t.Context(), path)
	var inUse *checkpoint.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("error is %v", err)
	}
	checkpointtest.Bind(t, first, "prod", "uid")
	first.Close()
	open(t, path).Close()
}

func TestErrorsSayWhatToDo(t *testing.T) {
	notADatabase := filepath.Join(t.TempDir(), "c.db")
	must(t, os.WriteFile(notADatabase, []byte(strings.Repeat("not a database. ", 100)), 0o600))
	_, err := sqlite.Open(t.Context(), notADatabase)
	if err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Fatalf("error is %v", err)
	}
	_, err = sqlite.Open(t.Context(), filepath.Join(notADatabase, "sub", "c.db"))
	if err == nil || !strings.Contains(err.Error(), "sub/c.db") {
		t.Fatalf("error is %v", err)
	}
}
