package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Error is a failed call: what was tried, on which file, why it failed and what the user can do.
type Error struct {
	Op   string
	Path string
	Err  error
}

func (s *Store) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Path: s.path, Err: err}
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in sqlite:%s: %v", e.Op, e.Path, e.Err)
	if hint := e.Hint(); hint != "" {
		text += ": " + hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Transient reports whether the call may succeed when it is tried again later.
func (e *Error) Transient() bool { return classify(e.Err).transient }

// Hint says what the user can do; empty when there is nothing to say.
func (e *Error) Hint() string { return classify(e.Err).hint }

type class struct {
	transient bool
	hint      string
}

// byCode: https://www.sqlite.org/rescode.html, the primary codes.
var byCode = map[int]class{
	codes.SQLITE_FULL:     {true, "the disk is full: make room; it goes on by itself"},
	codes.SQLITE_IOERR:    {true, "the disk or file system has trouble: see the system's log"},
	codes.SQLITE_NOMEM:    {true, ""},
	codes.SQLITE_CANTOPEN: {false, "may this user write to the folder?"},
	codes.SQLITE_READONLY: {false, "may this user write to the file and its folder?"},
	codes.SQLITE_PERM:     {false, "may this user write to the file and its folder?"},
	codes.SQLITE_CORRUPT:  {false, "the file is damaged: move it away to start with a new snapshot"},
	codes.SQLITE_NOTADB:   {false, "the file is not a checkpoint: correct the path, or move the file away"},
}

func classify(err error) class {
	if code, ok := primaryCode(err); ok {
		return byCode[code]
	}
	if errors.Is(err, fs.ErrPermission) {
		return byCode[codes.SQLITE_PERM]
	}
	return class{}
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
