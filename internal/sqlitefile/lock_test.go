//go:build linux || darwin

package sqlitefile

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A closed file is free, though a child that is being started has its descriptors for a moment.
func TestAClosedFileIsFreeWhileAChildStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	first, err := Own(t.Context(), path)
	must(t, err)
	inherited, err := syscall.Dup(int(first.lock.Fd()))
	must(t, err)
	defer syscall.Close(inherited)
	first.Close()
	second, err := Own(t.Context(), path)
	must(t, err)
	second.Close()
}
