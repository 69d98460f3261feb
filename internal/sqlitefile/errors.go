package sqlitefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"kubecdc/internal/fault"
)

// Fail wraps err with what was tried on this file. If the file is no longer in its place, that is the error, also for nil:
// neither a commit nor an answer counts. Otherwise it returns nil for nil.
func (f *File) Fail(op string, err error) error {
	switch moved := f.InPlace(); {
	case fault.Is[*fault.InUseError](err), err == nil && moved == nil:
		return err
	case err == nil:
		err = moved
	case moved != nil:
		err = fmt.Errorf("%w (%v)", moved, err)
	case primaryCode(err) == codes.SQLITE_IOERR:
		if full := f.noRoom(); full != nil {
			err = fmt.Errorf("%w: %w", full, err)
		}
	}
	return &fault.Database{Op: op, Where: "sqlite:" + f.path, Err: err, Hint: hint(err),
		Full: primaryCode(err) == codes.SQLITE_FULL, Gone: IsDamaged(err)}
}

// IsDamaged reports that a file holds other bytes than SQLite has written.
func IsDamaged(err error) bool { return primaryCode(err) == codes.SQLITE_CORRUPT }

// IsFull reports that a write failed because the disk is full, or because of a quota or a limit.
func IsFull(err error) bool {
	return primaryCode(err) == codes.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) || isLimited(err)
}

func isLimited(err error) bool {
	return errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// noRoom returns why the folder has no room for a larger file, or nil. SQLite does not say that a write has failed because of a
// quota, or because of a limit of the file size.
func (f *File) noRoom() error {
	probe, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".probe-*")
	if err == nil {
		defer os.Remove(probe.Name())
		defer probe.Close()
		largest := int64(0)
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(f.real + suffix); err == nil {
				largest = max(largest, info.Size())
			}
		}
		_, err = probe.WriteAt(make([]byte, 64<<10), largest)
		err = cmp.Or(err, probe.Sync())
	}
	if IsFull(err) {
		return err
	}
	return nil
}

// IsOutside reports that the disk, the file system or another process has caused an error. Then the file's bytes may be in order.
func IsOutside(err error) bool {
	switch primaryCode(err) {
	case codes.SQLITE_FULL, codes.SQLITE_IOERR, codes.SQLITE_CANTOPEN, codes.SQLITE_READONLY, codes.SQLITE_PERM,
		codes.SQLITE_NOMEM, codes.SQLITE_INTERRUPT:
		return true
	}
	return isBusy(err) || errors.Is(err, ErrMoved) || fault.Is[*fs.PathError](err) || fault.Is[*fault.InUseError](err)
}

// PutAside renames a file that can't be used and SQLite's log of it, and returns the new name, which says why.
func PutAside(path, why string) (aside string, err error) {
	aside = asideName(path, why)
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if e := os.Rename(path+suffix, aside+suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return aside, err
}

func asideName(path, why string) string {
	return path + "." + why + "-" + time.Now().UTC().Format("20060102T150405.000")
}

const noSharing = "the file system has no locks, or no memory that processes share: put the file on a local disk or a block " +
	"volume, " +
	"not on a network's or an emulated file system (KUBECDC_CHECKPOINT), or use Postgres"

const mayWrite = "may this user write to the file and its folder? SQLite keeps two more files there (-wal and -shm), also " +
	"to read " +
	"while no exporter runs"

// hints say what the user can do, by https://www.sqlite.org/rescode.html, the primary codes.
var hints = map[int]string{
	codes.SQLITE_BUSY:     "another process has been writing to it for long, or the file system has no locks: try again",
	codes.SQLITE_FULL:     "the disk is full: make room; it goes on by itself",
	codes.SQLITE_IOERR:    "the disk or file system has trouble: see the system's log",
	codes.SQLITE_CANTOPEN: mayWrite,
	codes.SQLITE_READONLY: mayWrite,
	codes.SQLITE_PERM:     mayWrite,
	codes.SQLITE_CORRUPT: "the file is damaged: a checkpoint of another log is put aside by run, and rebuilt from it; restore " +
		"a log from its backup, " +
		"or move the file away, and a new log begins",
	codes.SQLITE_NOTADB: "the file is not an SQLite database: correct the path, or move the file away",
}

func hint(err error) string {
	e, ok := errors.AsType[*driver.Error](err)
	switch {
	case errors.Is(err, ErrMoved):
		return "an exporter ends, and writes back what it has; stop it before you move its file; a command can be run again"
	case isLimited(err):
		return "a quota, or a limit of this process (ulimit -f), is reached: raise it, or make room; it goes on by itself"
	case ok && (e.Code() == codes.SQLITE_IOERR_SHMMAP || e.Code() == codes.SQLITE_IOERR_LOCK),
		errors.Is(err, errors.ErrUnsupported):
		return noSharing
	case ok && e.Code() == codes.SQLITE_IOERR_GETTEMPPATH:
		return "SQLite has no folder for its temporary files: may this user write to the file's folder, or to /tmp?"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return mayWrite
	}
	return hints[primaryCode(err)]
}

func isBusy(err error) bool {
	code := primaryCode(err)
	return code == codes.SQLITE_BUSY || code == codes.SQLITE_LOCKED
}

// primaryCode is the low byte of a code, or 0 if there is none. The rest says more precisely where.
func primaryCode(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}
