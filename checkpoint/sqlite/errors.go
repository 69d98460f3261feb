package sqlite

import (
	"errors"
	"io/fs"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"kubecdc/internal/dberror"
)

// fail wraps err with what was tried on this file; nil stays nil.
func (s *Store) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &dberror.Error{Op: op, Where: "sqlite:" + s.path, Err: err, Class: classify(err)}
}

// byCode: https://www.sqlite.org/rescode.html, the primary codes.
var byCode = map[int]dberror.Class{
	codes.SQLITE_FULL:     dberror.Passes("the disk is full: make room; it goes on by itself"),
	codes.SQLITE_IOERR:    dberror.Passes("the disk or file system has trouble: see the system's log"),
	codes.SQLITE_NOMEM:    dberror.Passes(""),
	codes.SQLITE_CANTOPEN: dberror.Lasts("may this user write to the folder?"),
	codes.SQLITE_READONLY: dberror.Lasts("may this user write to the file and its folder?"),
	codes.SQLITE_PERM:     dberror.Lasts("may this user write to the file and its folder?"),
	codes.SQLITE_CORRUPT:  dberror.Lasts("the file is damaged: move it away to start with a new snapshot"),
	codes.SQLITE_NOTADB:   dberror.Lasts("the file is not a checkpoint: correct the path, or move the file away"),
}

func classify(err error) dberror.Class {
	if code, ok := primaryCode(err); ok {
		return byCode[code]
	}
	if errors.Is(err, fs.ErrPermission) {
		return byCode[codes.SQLITE_PERM]
	}
	return dberror.Class{}
}

func isBusy(err error) bool {
	code, ok := primaryCode(err)
	return ok && (code == codes.SQLITE_BUSY || code == codes.SQLITE_LOCKED)
}

// primaryCode is the low byte; the rest says more precisely where.
func primaryCode(err error) (int, bool) {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}
