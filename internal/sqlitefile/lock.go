//go:build linux || darwin

package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"kubecdc/internal/fault"
)

// lock locks a file, which it makes. The lock ends with the process. The file is never removed: a process that had opened it
// would lock a file that no other process finds any more.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if strings.HasSuffix(path, ".lock") && err == nil {
		// SQLite locks parts of a file, and takes a file system without such locks for a file in use. Anything else is left to
		// it.
		part := syscall.Flock_t{Type: syscall.F_WRLCK}
		if e := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &part); errors.Is(e, syscall.ENOLCK) {
			err = e
		}
	}
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = &fault.InUseError{Path: strings.TrimSuffix(path, ".lock")}
	case errors.Is(err, syscall.ENOLCK):
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	_ = file.Close()
	return nil, err
}

// IsOwned reports whether a process owns a file.
func IsOwned(path string) bool {
	file, err := os.Open(path + ".lock")
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// unlock also ends the lock of a child that is being started: until its program runs, it has the descriptor too.
func unlock(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	_ = file.Close()
}

// Free returns how many bytes this user may still write to the disk of a folder.
func Free(folder string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return unknownFree
	}
	return int64(s.Bavail) * int64(s.Bsize) //nolint:unconvert // it has another type on other systems
}
