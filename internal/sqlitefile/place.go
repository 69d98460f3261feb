package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kubecdc/internal/wait"
)

// An open file remains readable and writable after its name was removed, or given to another file. Nobody else finds what is
// written then, and it ends with the process.

// ErrMoved says that the path of an open file does not lead to it any more.
var ErrMoved = errors.New("the file is no longer in its place")

// errChanged says that somebody has written to a file that is read without locks.
var errChanged = errors.New("somebody has written to the file while it was read, and this user may make no locks in its " +
	"folder: ask again")

// remember stores which files SQLite has open: the database, and those that end with the suffixes.
func (f *File) remember(suffixes ...string) (err error) {
	if f.real, err = filepath.EvalSymlinks(f.path); err != nil {
		return err
	}
	for _, suffix := range suffixes {
		info, err := os.Stat(f.real + suffix)
		if err != nil {
			return err
		}
		f.files = append(f.files, info)
	}
	return nil
}

// InPlace returns ErrMoved if the file, its write-ahead log or its shared memory was removed, moved or replaced. It opens none of
// them.
func (f *File) InPlace() error {
	for i, path := range []string{f.path, f.real + "-wal", f.real + "-shm"}[:len(f.files)] {
		switch now, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return fmt.Errorf("%w: %s was removed or moved", ErrMoved, path)
		case err != nil:
			return err
		case !os.SameFile(now, f.files[i]):
			return fmt.Errorf("%w: another file was put in the place of %s", ErrMoved, path)
		case f.fixed && (now.Size() != f.files[i].Size() || !now.ModTime().Equal(f.files[i].ModTime())):
			return errChanged
		}
	}
	if f.fixed {
		if _, err := os.Stat(f.real + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			return errChanged
		}
	}
	return nil
}

// writeBack writes what an owner has to its path, if that does not lead to its file any more. It waits for room on the disk.
func (f *File) writeBack() {
	for {
		moved := f.InPlace()
		if !errors.Is(moved, ErrMoved) {
			return
		}
		to, err := f.writeAgain()
		switch {
		case err == nil:
			slog.Warn("the file was no longer in its place: all that it has is written back", "file", to, "reason", moved)
			return
		case !IsFull(err) && f.noRoom() == nil && !errors.Is(err, errRead):
			slog.Error("the file is no longer in its place, and could not be written back", "file", f.path, "reason", moved,
				"error", err)
			return
		}
		slog.Error("the file is no longer in its place, and can't be written back yet", "file", f.path, "reason", moved, "error",
			err)
		_ = wait.For(context.Background(), 5*time.Second)
	}
}

// writeAgain returns where it has written the file. If another file is in its place, that is another path.
func (f *File) writeAgain() (to string, err error) {
	ctx := context.Background()
	emptied := f.EmptyLog(ctx) // a database that was only moved is then complete where it is
	if now, err := os.Stat(f.path); err == nil && os.SameFile(now, f.files[0]) {
		return f.path, emptied
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return "", err
	}
	copied := f.path + ".writing"
	_ = os.Remove(copied)
	defer os.Remove(copied)
	if err := create(copied); err != nil {
		return "", err
	}
	if _, err = f.db.ExecContext(ctx, `vacuum into ?`, copied); err != nil {
		return "", err
	}
	for i, suffix := range []string{"-wal", "-shm"} { // SQLite would add them to whatever database has the name
		if now, err := os.Stat(f.real + suffix); err == nil && os.SameFile(now, f.files[1+i]) {
			_ = os.Remove(f.real + suffix)
		}
	}
	if to = f.path; errors.Is(os.Link(copied, to), fs.ErrExist) {
		to = asideName(f.path, "replaced")
	}
	if _, missing := os.Stat(to); missing != nil { // a folder may have no hard links
		err = os.Rename(copied, to)
	}
	return to, errors.Join(err, SyncFolder(filepath.Dir(to)))
}

var errRead = errors.New("another process reads the file in one transaction: redacted values remain in the file until that ends")

// EmptyLog moves SQLite's write-ahead log to the database. It waits for readers for a limited time.
func (f *File) EmptyLog(ctx context.Context) error {
	var busy, frames, moved int
	err := f.db.QueryRowContext(ctx, `pragma wal_checkpoint(truncate)`).Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = errRead
	}
	return err
}
