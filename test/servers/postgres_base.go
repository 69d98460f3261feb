package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// postgresBase is where Postgres' user can work: dir, or a folder beside the checkout where that user can't get to dir, e.g.
// root's checkout below /root.
//
// It is the same for every process, whatever TMPDIR says: the demo, for one, sets a TMPDIR below dir.
func postgresBase(dir string, user *owner) (string, error) {
	if user.canReach(dir) {
		return dir, nil
	}
	// The first of the two outlives a restart of the machine.
	for _, parent := range []string{"/var/tmp", "/tmp"} {
		if exists(parent) && user.canReach(parent) {
			base := filepath.Join(parent, "kubecdc-postgres-"+shortHash(dir))
			return base, claim(base)
		}
	}
	return "", fmt.Errorf("run Postgres as the user %s, since it refuses to run as root: that user can enter neither %s"+
		" nor /var/tmp nor /tmp; name a folder that it can enter in KUBECDC_SERVERS_DIR", user.name, dir)
}

// claim makes a folder in a place where anybody may, and makes sure that it is this user's: what is in it will be run.
func claim(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a folder for Postgres: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("make a folder for Postgres: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("use %s for Postgres: it belongs to someone else; name another folder in KUBECDC_SERVERS_DIR", dir)
	}
	return nil
}

// recordBase leaves a link to base in dir if it is elsewhere, for people to see and for make clean to follow.
func recordBase(dir, base string) error {
	link := filepath.Join(dir, "elsewhere")
	if to, _ := os.Readlink(link); base == dir || to == base {
		return nil
	}
	_ = os.Remove(link)
	if err := os.Symlink(base, link); err != nil {
		return fmt.Errorf("record where Postgres is: %w", err)
	}
	return nil
}
