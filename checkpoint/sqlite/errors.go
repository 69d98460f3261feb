package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"kubecdc/internal/dberror"
)

// fail wraps err with what was tried on this file; nil stays nil.
func (s *Store) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	code, _ := primaryCode(err)
	return &dberror.Error{Op: op, Where: "sqlite:" + s.path, Err: err, Hint: hint(err), Gone: code == codes.SQLITE_CORRUPT}
}

// IsDamaged reports that a file holds other bytes than SQLite has written.
func IsDamaged(err error) bool {
	code, known := primaryCode(err)
	return known && code == codes.SQLITE_CORRUPT
}

// PutAside renames a damaged file, with the log beside it, and returns its new name.
func PutAside(path string) (aside string, err error) {
	aside = path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if e := os.Rename(path+suffix, aside+suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return aside, err
}

// hints say what the user can do, by https://www.sqlite.org/rescode.html, the primary codes.
var hints = map[int]string{
	codes.SQLITE_FULL:     "the disk is full: make room; it goes on by itself",
	codes.SQLITE_IOERR:    "the disk or file system has trouble: see the system's log",
	codes.SQLITE_CANTOPEN: "may this user write to the folder?",
	codes.SQLITE_READONLY: "may this user write to the file and its folder?",
	codes.SQLITE_PERM:     "may this user write to the file and its folder?",
	codes.SQLITE_CORRUPT:  "the file is damaged: run puts it aside, and rebuilds it from the log; where that can't be read back, move it away",
	codes.SQLITE_NOTADB:   "the file is not a checkpoint: correct the path, or move the file away",
}

func hint(err error) string {
	if code, ok := primaryCode(err); ok {
		return hints[code]
	}
	if errors.Is(err, fs.ErrPermission) {
		return hints[codes.SQLITE_PERM]
	}
	return ""
}

func isBusy(err error) bool {
	code, ok := primaryCode(err)
	return ok && (code == codes.SQLITE_BUSY || code == codes.SQLITE_LOCKED)
}

// primaryCode is the low byte; the rest says more precisely where.
func primaryCode(err error) (int, bool) {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff, true
	}
	return 0, false
}
