package sqlitefile_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubecdc/internal/sqlitefile"
	"kubecdc/test/require"
)

// What only a process of its own can be given: a mount, or a system call that fails. attackOn names the file of such a child.
const attackOn, attack = "KUBECDC_TEST_SQLITE_FILE", "KUBECDC_TEST_SQLITE_ATTACK"

func TestMain(m *testing.M) {
	path := os.Getenv(attackOn)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := attacks[os.Getenv(attack)](context.Background(), path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var attacks = map[string]func(ctx context.Context, path string) error{
	"full disk": onFullDisk, "removed on a full disk": removedOnFullDisk, "largest file": atLargestFile, "quota": withoutQuota, "network": onNetwork,
	"read-only folder": inReadOnlyFolder, "read-only root": inReadOnlyRoot,
	"no locks": func(ctx context.Context, path string) error {
		return errors.Join(refuse(unix.SYS_FLOCK, 0, 0, syscall.ENOLCK), owned(ctx, path))
	},
	"no locks of parts": func(ctx context.Context, path string) error {
		return errors.Join(refuse(unix.SYS_FCNTL, 1, unix.F_SETLK, syscall.ENOLCK), owned(ctx, path))
	},
	"no shared memory": func(ctx context.Context, path string) error {
		return errors.Join(refuse(unix.SYS_MMAP, 3, unix.MAP_SHARED, syscall.ENODEV), owned(ctx, path))
	},
}

// under runs the attack, in namespaces of its own, where it may mount. It returns what the child printed.
func under(t *testing.T, name, path string) string {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), attackOn+"="+path, attack+"="+name)
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skipf("this machine gives a process no namespaces of its own: %v", err)
	}
	return string(out)
}

var tables = fstest.MapFS{"migrations/00001_t.sql": {Data: []byte("-- +goose Up\ncreate table t (id integer primary key, body blob);\n")}}

func owned(ctx context.Context, path string) error {
	f, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Migrate(ctx, tables, "migrations")
}

// onFullDisk fills the disk, and makes room.
func onFullDisk(ctx context.Context, path string) error {
	if err := unix.Mount("tmpfs", filepath.Dir(path), "tmpfs", 0, "size=2m"); err != nil {
		return err
	}
	filler := filepath.Join(filepath.Dir(path), "filler")
	f, err := sqlitefile.Own(ctx, path)
	if err == nil {
		err = errors.Join(f.Migrate(ctx, tables, "migrations"), os.WriteFile(filler, make([]byte, 512<<10), 0o600))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return fillUp(ctx, f, func() error { return os.Remove(filler) })
}

// fillUp inserts rows until that fails, and again after relief. It prints the error, and how many rows there are in the end.
func fillUp(ctx context.Context, f *sqlitefile.File, relief func() error) (err error) {
	insert := func() error {
		_, err := f.DB().ExecContext(ctx, `insert into t (body) values ($1)`, []byte(strings.Repeat(rand.Text(), 1000)))
		return f.Fail("insert", err)
	}
	rows := 0
	for ; err == nil; err = insert() {
		rows++
	}
	rows-- // the first turn inserts nothing
	fmt.Println(err)
	if err := insert(); !sqlitefile.IsFull(err) {
		return fmt.Errorf("it was full, and then was not: %w", err)
	}
	if err := relief(); err != nil {
		return err
	}
	for range 3 {
		if err := insert(); err != nil {
			return err
		}
	}
	var have int
	var sound string
	err = errors.Join(f.DB().QueryRow(`select count(*) from t`).Scan(&have), f.DB().QueryRow(`pragma integrity_check`).Scan(&sound))
	fmt.Printf("%d of %d rows, %s\n", have, rows+3, sound)
	return err
}

// atLargestFile may not make the file as large as it would become.
func atLargestFile(ctx context.Context, path string) error {
	f, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Migrate(ctx, tables, "migrations"); err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: limit.Max}); err != nil {
		return err
	}
	return fillUp(ctx, f, func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit) })
}

func TestAFullDiskLosesNothing(t *testing.T) {
	for name, want := range map[string]string{"full disk": "the disk is full: make room; it goes on by itself",
		"largest file": "file too large: disk I/O error (778): a quota, or a limit of this process (ulimit -f), is reached: raise it, or make room; it goes on"} {
		out := under(t, name, filepath.Join(t.TempDir(), "c.db"))
		var have, inserted int
		said, counted, _ := strings.Cut(strings.TrimSpace(out), "\n")
		if !strings.Contains(said, want) {
			t.Errorf("%s: it said: %s", name, out)
		}
		if n, err := fmt.Sscanf(counted, "%d of %d rows, ok", &have, &inserted); n != 2 || err != nil || have != inserted || have < 10 {
			t.Errorf("%s: afterwards: %s", name, counted)
		}
	}
}

// withoutQuota can't write any more, as a user whose quota is used up.
func withoutQuota(ctx context.Context, path string) error {
	f, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Migrate(ctx, tables, "migrations"), refuse(unix.SYS_PWRITE64, 0, 0, syscall.EDQUOT)); err != nil {
		return err
	}
	_, err = f.DB().ExecContext(ctx, `insert into t default values`)
	err = f.Fail("insert", err)
	fmt.Println("full:", sqlitefile.IsFull(err))
	return err
}

func TestAQuotaThatIsUsedUp(t *testing.T) {
	out := under(t, "quota", filepath.Join(t.TempDir(), "c.db"))
	if !strings.HasPrefix(out, "full: true\n") || !strings.Contains(out, "disk quota exceeded: disk I/O error (778): a quota, or a limit") {
		t.Errorf("it said: %s", out)
	}
}

// removedOnFullDisk removes the file where there is no room to write it back, and makes room later.
func removedOnFullDisk(ctx context.Context, path string) error {
	if err := unix.Mount("tmpfs", filepath.Dir(path), "tmpfs", 0, "size=4m"); err != nil {
		return err
	}
	f, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	filler := filepath.Join(filepath.Dir(path), "filler")
	err = errors.Join(f.Migrate(ctx, tables, "migrations"), os.WriteFile(filler, make([]byte, 2<<20), 0o600))
	if err == nil {
		_, err = f.DB().ExecContext(ctx, `insert into t (body) values (randomblob(1000000))`)
	}
	if err = errors.Join(err, os.Remove(path)); err != nil {
		return err
	}
	waits := &waiting{said: make(chan bool)}
	slog.SetDefault(slog.New(slog.NewTextHandler(waits, nil)))
	closed := make(chan bool)
	go func() { f.Close(); close(closed) }()
	select {
	case <-waits.said:
	case <-closed:
		return errors.New("it was not written back")
	}
	if _, err := os.Stat(path); err == nil {
		return errors.New("it was written back without room")
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	<-closed
	f, err = sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	var bytes int
	err = f.DB().QueryRow(`select length(body) from t`).Scan(&bytes)
	fmt.Println(bytes, "bytes")
	return err
}

// waiting is a log writer, which closes said once a line says that a file can't be written back yet.
type waiting struct {
	said chan bool
	once sync.Once
}

func (w *waiting) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("can't be written back yet")) {
		w.once.Do(func() { close(w.said) })
	}
	return len(line), nil
}

func TestAFileThatIsRemovedToMakeRoomIsWrittenBackLater(t *testing.T) {
	if out := under(t, "removed on a full disk", filepath.Join(t.TempDir(), "c.db")); out != "1000000 bytes\n" {
		t.Errorf("it said: %s", out)
	}
}

// onNetwork reads in the kernel's list of mounts that the folder is on NFS.
func onNetwork(ctx context.Context, path string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	list := path + ".mounts"
	if err := os.WriteFile(list, regexp.MustCompile(` - \S+ `).ReplaceAll(mounts, []byte(" - nfs4 ")), 0o600); err != nil {
		return err
	}
	if err := unix.Mount(list, "/proc/self/mountinfo", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	for range 2 {
		if err := owned(ctx, path); err != nil {
			return err
		}
	}
	fmt.Println("owned")
	return nil
}

// A file system whose locks may be unreliable is named once, and used all the same.
func TestAnUnusualFileSystemIsNamed(t *testing.T) {
	out := under(t, "network", filepath.Join(t.TempDir(), "c.db"))
	if strings.Count(out, "the file system may have no reliable locks") != 1 || !strings.Contains(out, "type=nfs4\n") || !strings.HasSuffix(out, "owned\n") {
		t.Errorf("it said: %s", out)
	}
}

// inReadOnlyFolder reads the file, and tries to write.
func inReadOnlyFolder(ctx context.Context, path string) error {
	folder := filepath.Dir(path)
	err := unix.Mount(folder, folder, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", folder, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return err
	}
	f, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Migrate(ctx, tables, "migrations"); err != nil {
		return err
	}
	var rows int
	if err := f.DB().QueryRow(`select count(*) from t`).Scan(&rows); err != nil {
		return f.Fail("read", err)
	}
	fmt.Printf("%d rows\n", rows)
	_, err = f.DB().ExecContext(ctx, `insert into t default values`)
	return f.Fail("insert", err)
}

// A folder that may not be written to: what a running owner has is read. Without one SQLite would have to make its files there.
func TestAReadOnlyFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	f, err := sqlitefile.Own(t.Context(), path)
	must(t, err)
	must(t, f.Migrate(t.Context(), tables, "migrations"))
	_, err = f.DB().Exec(`insert into t default values`)
	must(t, err)
	const hint = "may this user write to the file and its folder?"
	if out := under(t, "read-only folder", path); !strings.HasPrefix(out, "1 rows\n") || !strings.Contains(out, hint) {
		t.Errorf("while its owner runs: %s", out)
	}
	f.Close()
	if out := under(t, "read-only folder", path); !strings.Contains(out, hint) {
		t.Errorf("without an owner: %s", out)
	}
}

// inReadOnlyRoot writes and reads what SQLite has no room for in memory, where it may write to the file's folder alone, as in a Pod. It
// does that with a statement that may have to be undone, a file that is written anew, and a large sort by another process.
func inReadOnlyRoot(ctx context.Context, path string) error {
	folder := filepath.Dir(path)
	root := filepath.Dir(folder)
	err := errors.Join(os.Mkdir(folder, 0o700), unix.Mount(root, root, "", unix.MS_BIND, ""), unix.Mount(folder, folder, "", unix.MS_BIND, ""))
	if err == nil {
		err = unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err = errors.Join(err, unix.Chroot(root), unix.Chdir("/")); err != nil {
		return err
	}
	path = filepath.Join("/", filepath.Base(folder), filepath.Base(path))
	f, err := sqlitefile.Own(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	const fill = `with recursive n (i) as (select 1 union all select i + 1 from n where i < 100)
		insert into t select i, randomblob(60000) from n where true on conflict (id) do update set body = excluded.body`
	for _, statement := range []string{`create table t (id integer primary key, body blob not null)`, fill, fill, `vacuum`} {
		if _, err := f.DB().ExecContext(ctx, statement); err != nil {
			return f.Fail(statement, err)
		}
	}
	reader, err := sqlitefile.Share(ctx, path)
	if err != nil {
		return err
	}
	defer reader.Close()
	var first int
	err = reader.DB().QueryRow(`select length(body) from t order by body`).Scan(&first)
	fmt.Printf("%d bytes\n", first)
	return reader.Fail("sort", err)
}

func TestARootThatMayNotBeWrittenTo(t *testing.T) {
	if out := under(t, "read-only root", filepath.Join(t.TempDir(), "state", "c.db")); out != "60000 bytes\n" {
		t.Errorf("it said: %s", out)
	}
}

func TestAFileSystemWithoutWhatProcessesShare(t *testing.T) {
	for _, lacks := range []string{"no locks", "no locks of parts", "no shared memory"} {
		out := under(t, lacks, filepath.Join(t.TempDir(), "c.db"))
		if !strings.Contains(out, "put the file on a local disk or a block volume") {
			t.Errorf("%s: %s", lacks, out)
		}
	}
}

// refuse makes a system call fail in this process, where an argument has these bits.
func refuse(call, argument int, bits uint32, errno syscall.Errno) error {
	const number, arguments = 0, 16 // where struct seccomp_data has them
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: uint32(call)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(arguments + 8*argument)},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: bits},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return e
	}
	return nil
}

var must = require.NoError
