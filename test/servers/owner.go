package servers

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that a server runs as, where it may not be root.
type owner struct {
	name     string
	uid, gid uint32
}

// unprivileged is the user to run Postgres as, which refuses to run as root: nil (this process's own) unless this is root.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return newOwner(u)
		}
	}
	return nil, fmt.Errorf("run Postgres as root: it refuses to, and there is no user postgres or nobody to run it as")
}

func newOwner(u *user.User) (*owner, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("find user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("find user %s: %w", u.Username, err)
	}
	return &owner{name: u.Username, uid: uint32(uid), gid: uint32(gid)}, nil
}

// credential is for a child process. If it is nil, the child runs as this process's own user.
func (o *owner) credential() *syscall.Credential {
	if o == nil {
		return nil
	}
	return &syscall.Credential{Uid: o.uid, Gid: o.gid}
}

// give makes o the owner of everything under dir.
func (o *owner) give(dir string) error {
	if o == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(o.uid), int(o.gid))
	})
}

// canReach reports whether o may pass through every folder down to dir.
func (o *owner) canReach(dir string) bool {
	if o == nil {
		return true
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && !o.canPass(info) {
			return false
		}
	}
	return true
}

func (o *owner) canPass(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case ok && stat.Uid == o.uid:
		return mode&0o100 != 0
	case ok && stat.Gid == o.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
