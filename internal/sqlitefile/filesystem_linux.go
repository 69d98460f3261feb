package sqlitefile

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// lockDatabase locks the database itself. The database may have other names with other .lock files: hard links, and mounts in
// several containers. It takes no lock where not only the kernel decides on locks. On NFS this lock may conflict with a lock of
// SQLite.
func lockDatabase(path string) (*os.File, error) {
	kind := unusual(filepath.Dir(path))
	if kind == "" {
		return lock(path)
	}
	if _, warned := unusualFound.LoadOrStore(filepath.Dir(path), true); !warned {
		slog.Warn("the file system may have no reliable locks, or lose what was synced: put the file on a local disk or a "+
			"block volume",
			"file", path, "type", kind)
	}
	return nil, nil
}

var unusualFound sync.Map // by folder

// unusualTypes are file systems that another machine, or another program, may change or lock too.
var unusualTypes = regexp.MustCompile(`^(nfs\d*|cifs|smb\d*|9p|virtiofs|fuse(blk|\..*)?|ceph|lustre|gfs2|ocfs2|afs|beegfs|gpfs|vboxsf|prl_fs|vmhgfs)$`)

// unusual returns the type of a folder's file system if it is one of unusualTypes, or "". statfs can't tell virtiofs from FUSE.
func unusual(folder string) string {
	var s unix.Stat_t
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || unix.Stat(folder, &s) != nil {
		return ""
	}
	device := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	for line := range strings.Lines(string(mounts)) {
		mount, rest, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(rest, " ")
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == device && unusualTypes.MatchString(kind) {
			return kind
		}
	}
	return ""
}
