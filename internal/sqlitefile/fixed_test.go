package sqlitefile

import (
	"errors"
	"path/filepath"
	"testing"
)

// What is read without locks counts only until somebody else writes.
func TestAFileThatIsReadWithoutLocksMayNotChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	write := func(statement string) (owner *File) {
		owner, err := Own(t.Context(), path)
		if err == nil {
			_, err = owner.DB().ExecContext(t.Context(), statement)
		}
		must(t, err)
		return owner
	}
	read := func() *File {
		f, err := Share(t.Context(), path)
		must(t, err)
		t.Cleanup(f.Close)
		f.fixed = true
		return f
	}
	want := func(f *File, err error, when string) {
		if got := f.Fail("read", nil); !errors.Is(got, err) {
			t.Errorf("%s: %v, want %v", when, got, err)
		}
	}
	write(`create table a (b)`).Close()
	closing := read()
	closing.db.Close() // so that no connection of this process has the write-ahead log
	want(closing, nil, "unchanged")
	owner := write(`insert into a values (1)`)
	want(closing, errChanged, "beside an owner")
	owner.Close()
	want(closing, errChanged, "after an owner")
	again := read()
	again.db.Close()
	want(again, nil, "read again")
}
