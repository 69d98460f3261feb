package sqlitefile

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kubecdc/internal/fault"
)

// made owns a file with 100 rows, which are in SQLite's write-ahead log alone.
func made(t *testing.T, path string) *File {
	t.Helper()
	f, err := Own(t.Context(), path)
	must(t, err)
	_, err = f.DB().Exec(`create table if not exists t (id integer primary key, body blob);
		with recursive n (i) as (select 1 union all select i + 1 from n where i < 100) insert into t (body) select randomblob(1000) from n`)
	must(t, err)
	return f
}

// rows returns how many rows a file has, and what keeps it from being sound.
func rows(t *testing.T, path string) (n int, sound string) {
	t.Helper()
	f, err := Own(t.Context(), path)
	if err != nil {
		return 0, err.Error()
	}
	defer f.Close()
	must(t, f.DB().QueryRow(`pragma integrity_check`).Scan(&sound))
	var vacuum int
	must(t, f.DB().QueryRow(`pragma auto_vacuum`).Scan(&vacuum))
	if vacuum != 2 {
		t.Errorf("%s gives no pages back to the disk", path)
	}
	must(t, f.DB().QueryRow(`select count(*) from t`).Scan(&n))
	return n, sound
}

// misplaced is a way in which a file is not in its place any more.
type misplaced struct {
	do        func(path, backup string) error
	elsewhere bool // the file in its place is another one
}

// A file is removed, moved or replaced under its owner, or one of the files that belong to it. From then on, nobody's commits or
// answers count. In the end all rows are in its place, or in a file next to the one that was put there.
func TestAFileThatIsNotInItsPlace(t *testing.T) {
	for name, c := range map[string]misplaced{
		"removed": {do: func(path, _ string) error { return os.Remove(path) }},
		"removed with all that belongs to it": {do: func(path, _ string) error {
			return errors.Join(os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"), os.Remove(path+".lock"))
		}},
		"removed with its folder": {do: func(path, _ string) error { return os.RemoveAll(filepath.Dir(path)) }},
		"moved":                   {do: func(path, _ string) error { return os.Rename(path, path+".moved") }},
		"its folder moved":        {do: func(path, _ string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved") }},
		"its folder is a file": {elsewhere: true, do: func(path, _ string) error {
			return errors.Join(os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved"), os.WriteFile(filepath.Dir(path), nil, 0o600))
		}},
		"replaced": {elsewhere: true, do: func(path, backup string) error { return os.Rename(backup, path) }},
		"removed, and its log left under another": {elsewhere: true, do: func(path, backup string) error {
			return errors.Join(os.Remove(path), os.Link(backup, path))
		}},
		"its log is removed":           {do: func(path, _ string) error { return os.Remove(path + "-wal") }},
		"its log is replaced":          {do: func(path, backup string) error { return os.Rename(backup, path+"-wal") }},
		"its shared memory is removed": {do: func(path, _ string) error { return os.Remove(path + "-shm") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.test(t, name)
		})
	}
}

func (c *misplaced) test(t *testing.T, name string) {
	path := filepath.Join(t.TempDir(), "state", "c.db")
	f := made(t, path)
	backup := path + ".backup"
	_, err := f.DB().Exec(`vacuum into ?`, backup)
	must(t, err)
	made(t, backup).Close()
	_, err = f.DB().Exec(`insert into t (body) select body from t`)
	must(t, err)
	must(t, f.Fail("insert", nil))
	reader, err := Share(t.Context(), path)
	must(t, err)
	must(t, c.do(path, backup))
	if err := f.Fail("insert", nil); !errors.Is(err, ErrMoved) {
		t.Errorf("the owner's commit counts: %v", err)
	}
	if !strings.HasPrefix(name, "its log") && !strings.HasPrefix(name, "its shared") {
		if err := reader.Fail("read", nil); !errors.Is(err, ErrMoved) {
			t.Errorf("a reader's answer counts: %v", err)
		}
	}
	reader.Close()
	f.Close()
	if name == "its folder is a file" {
		must(t, os.Remove(filepath.Dir(path)))
		path = filepath.Join(filepath.Dir(path)+".moved", filepath.Base(path))
	}
	found := []string{path}
	if c.elsewhere && name != "its folder is a file" {
		if n, sound := rows(t, path); n != 200 || sound != "ok" {
			t.Errorf("what was put there has %d rows: %s", n, sound)
		}
		found, _ = filepath.Glob(path + ".replaced-*")
	}
	if len(found) != 1 {
		t.Fatalf("it was written to %v", found)
	}
	if n, sound := rows(t, found[0]); n != 200 || sound != "ok" {
		t.Errorf("%d of 200 rows: %s", n, sound)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
	if left, _ := filepath.Glob(path + ".w*"); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// A name that leads to a file, and leads elsewhere later.
func TestASymbolicLinkThatIsChanged(t *testing.T) {
	folder := t.TempDir()
	link, one, two := filepath.Join(folder, "c.db"), filepath.Join(folder, "one.db"), filepath.Join(folder, "two.db")
	made(t, one).Close()
	must(t, os.Symlink(one, link))
	f := made(t, link)
	must(t, f.Fail("insert", nil))
	must(t, os.Remove(link))
	must(t, os.Symlink(two, link))
	if err := f.Fail("insert", nil); !errors.Is(err, ErrMoved) {
		t.Errorf("a commit counts: %v", err)
	}
	f.Close()
	replaced, _ := filepath.Glob(link + ".replaced-*") // a link that leads nowhere is left alone
	for _, path := range append(replaced, one) {
		if n, sound := rows(t, path); n != 200 || sound != "ok" || len(replaced) != 1 {
			t.Errorf("%s has %d of 200 rows: %s", path, n, sound)
		}
	}
}

// One file has several names: hard links, or mounts of it in several containers. It has one owner all the same.
func TestAFileWithTwoNamesHasOneOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there this lock excludes those of SQLite")
	}
	folder := t.TempDir()
	names := [3]string{}
	for i := range names {
		names[i] = filepath.Join(folder, fmt.Sprint(i), "c.db")
		must(t, os.Mkdir(filepath.Dir(names[i]), 0o700))
	}
	first := made(t, names[0])
	must(t, os.Link(names[0], names[1]))
	must(t, os.Symlink(names[0], names[2]))
	for _, name := range names {
		if f, err := Own(t.Context(), name); !fault.Is[*fault.InUseError](err) {
			t.Errorf("%s has another owner: %v", name, err)
			f.Close()
		}
	}
	first.Close()
	for _, name := range names {
		if n, sound := rows(t, name); n != 100 || sound != "ok" {
			t.Errorf("%s has %d of 100 rows: %s", name, n, sound)
		}
	}
}

// A statement that is cancelled may cost its connection. SQLite goes on with the files that it has.
func TestAConnectionThatIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	f := made(t, path)
	defer f.Close()
	conn, err := f.DB().Conn(t.Context())
	must(t, err)
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	must(t, f.Fail("give the connection up", nil))
	var n int
	must(t, f.DB().QueryRow(`select count(*) from t`).Scan(&n))
	if err := f.Fail("read", nil); err != nil || n != 100 {
		t.Errorf("it has %d of 100 rows: %v", n, err)
	}
}
