package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const keepEnv = "KUBECDC_SERVERS_KEEP"

// instance is the folder of one running server. Its owner holds a lock on a file in it, which the kernel releases when the owner ends,
// however it ends. So a later start knows whether a folder is in use or was left behind.
type instance struct {
	dir  string
	lock *os.File
	keep bool
}

// newInstance makes a folder under base/run, and clears away those whose owners are gone.
func newInstance(base, name string) (*instance, error) {
	run := filepath.Join(base, "run")
	if err := os.MkdirAll(run, 0o755); err != nil {
		return nil, fmt.Errorf("make instance folder: %w", err)
	}
	unlock, err := lockFile(filepath.Join(base, "run.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sweep(run)
	return makeInstance(run, name)
}

func makeInstance(run, name string) (*instance, error) {
	dir, err := os.MkdirTemp(run, name+"-")
	if err != nil {
		return nil, fmt.Errorf("make instance folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make instance folder: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("make instance folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock instance folder: %w", err)
	}
	i := &instance{dir: dir, lock: lock, keep: os.Getenv(keepEnv) != ""}
	if i.keep {
		err = os.WriteFile(i.path("keep"), nil, 0o644)
	}
	return i, err
}

func sweep(run string) {
	dirs, _ := filepath.Glob(filepath.Join(run, "*"))
	for _, dir := range dirs {
		if exists(filepath.Join(dir, "keep")) {
			continue
		}
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}

func (i *instance) path(name string) string { return filepath.Join(i.dir, name) }

// close removes the folder, unless KUBECDC_SERVERS_KEEP is set.
func (i *instance) close() error {
	defer i.lock.Close()
	if i.keep {
		return nil
	}
	return os.RemoveAll(i.dir)
}

// lockFile waits for the lock on path, across processes.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
