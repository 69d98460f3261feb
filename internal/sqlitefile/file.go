// Package sqlitefile opens the SQLite file in which an exporter stores its checkpoint, and its log if that is in a file too. It
// opens the file as its owner, or shares it, as commands do while an exporter runs. It does not know the contents of the tables.
//
// An owner holds two locks of the operating system: on FILE.lock, and on the database, which may have several names. Both end
// with the process. SQLite has locks of its own on the database. Its locks end when this process closes any descriptor of the
// file (fcntl). So the owner opens the database before SQLite does, and closes it afterwards. Nobody else in this process may
// open it.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
	codes "modernc.org/sqlite/lib"

	"kubecdc/internal/fault"
)

// File is an open file. All parts of a process share one.
type File struct {
	db     *sql.DB
	path   string
	lock   *os.File // nil: it is shared
	inode  *os.File // the locked database, or nil
	second *sql.DB  // reads nothing: with a connection open, SQLite does not make -wal and -shm anew
	files  []os.FileInfo
	fixed  bool   // SQLite reads the database without locks, since this process may write nothing there, and nobody else does
	real   string // the path without symbolic links
	stop   context.CancelFunc
}

// pragmas has synchronous=FULL, which syncs SQLite's log at each commit, so that a commit survives a loss of power. A reader that
// holds a transaction lets that log grow (-wal). It is cut to 64 MB once it has been copied to the database.
var pragmas = []string{"synchronous(full)", "foreign_keys(on)", "journal_size_limit(67108864)"}

// The owner's pragmas come first. Pages of a new file can be given back to the disk later, a few at a time (incremental_vacuum).
// Deleted content is overwritten (secure_delete), since it may be redacted now.
//
// Only a new file gets the size of pages. The driver runs pragmas in alphabetical order. Quotes put page_size before those that
// write the first page. SQLite's log is copied to the database every 4 MB.
var owners = []string{`"main".page_size(16384)`, "auto_vacuum(incremental)", "journal_mode(wal)", "secure_delete(on)",
	"wal_autocheckpoint(256)"}

// busyTimeout is how long a statement waits for another process that writes, in milliseconds. Commands write one row at a time.
// They need a moment between an owner's transactions, which a busy owner leaves seldom, so they are more patient.
const (
	busyTimeout = "10000"
	patience    = "busy_timeout(60000)"
)

// Own opens the file as its owner. If there is no file, it creates one that only this user can read. While another process owns
// it, it fails with *fault.InUseError. So an owner knows that no other one lives.
func Own(ctx context.Context, path string) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, f.Fail("make the folder", err)
	}
	if f.lock, err = lock(path + ".lock"); err != nil {
		return nil, f.Fail("lock the file", err)
	}
	if err = create(path); err == nil {
		f.inode, err = lockDatabase(path)
	}
	if err != nil {
		err = f.Fail("make the file", err)
	} else if f.db, err = f.open(ctx, append(owners, pragmas...)); err == nil {
		f.useFolder(ctx)
		err = f.mustShare(ctx)
	}
	if err == nil {
		f.second, err = f.open(ctx, pragmas)
	}
	if err == nil {
		err = f.Fail("find the file", f.remember("", "-wal", "-shm"))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	go f.watchLog(watching)
	return f, nil
}

// Share opens a file that exists, whether or not a process owns it. A process that shares it reads in short pieces, since
// SQLite's log grows while a transaction is open. It writes only what an owner polls. A file that it may only read, and that
// nobody else has open, is read without locks. If somebody writes to such a file during an answer, the answer is an error
// (InPlace).
func Share(ctx context.Context, path string) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	if err = f.remember(""); err != nil {
		return nil, err
	}
	shared := append(pragmas[:len(pragmas):len(pragmas)], patience)
	f.db, err = f.open(ctx, shared)
	if _, missing := os.Stat(f.real + "-wal"); primaryCode(err) == codes.SQLITE_READONLY && errors.Is(missing, fs.ErrNotExist) {
		f.fixed = true
		f.db, err = f.open(ctx, shared)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	f.useFolder(ctx)
	return f, nil
}

// open opens one connection: all that this process writes takes turns, and never waits for a lock of its own.
func (f *File) open(ctx context.Context, pragmas []string) (*sql.DB, error) {
	query := url.Values{"_pragma": pragmas, "mode": {"rw"}, "_txlock": {"immediate"}, "_busy_timeout": {busyTimeout}}
	if f.fixed {
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	}
	u := url.URL{Scheme: "file", Path: f.path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err == nil {
		db.SetMaxOpenConns(1)
		err = db.PingContext(ctx)
	}
	if isBusy(err) && f.lock != nil { // a release that locked the database itself
		err = &fault.InUseError{Path: f.path}
	}
	return db, f.Fail("open", err)
}

// useFolder has SQLite put its temporary files into the file's folder. SQLite needs them for a statement that may have to be
// undone, for a large sort, and for vacuum, which copies the file. In a Pod there is no other folder that may be written to. A
// process that may only read the file uses the system's folder. The setting is the process's. SQLite calls it deprecated for
// programs with threads that set it at different times, so a lock guards it.
func (f *File) useFolder(ctx context.Context) {
	folder := strings.ReplaceAll(filepath.Dir(f.path), "'", "''")
	_, _ = f.db.ExecContext(ctx, `pragma temp_store_directory = '`+folder+`'`)
}

// mustShare returns an error if no other process could read the file while this one has it.
func (f *File) mustShare(ctx context.Context) error {
	var mode string
	err := f.db.QueryRowContext(ctx, `select journal_mode from pragma_journal_mode, (select count(*) from sqlite_schema)`).Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("%w: its journal can't be a write-ahead log, but is %q", errors.ErrUnsupported, mode)
	}
	return f.Fail("open", err)
}

// create makes the file. It does not touch one that is there: see the package's comment.
func create(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), SyncFolder(filepath.Dir(path)))
}

// SyncFolder makes the entry of a new file, or its new name, outlast a loss of power.
func SyncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every file system can
	return d.Close()
}

// DB is the connection to the file. A transaction begins with the lock to write (begin immediate), so that it never has to be
// repeated. A single statement, and rows that are read, take no lock that others wait for.
func (f *File) DB() *sql.DB { return f.db }

func (f *File) Path() string { return f.path }

// unknownFree is the free space of a disk that does not say it.
const unknownFree = 1 << 60

func (f *File) Owned() bool { return f.lock != nil }

// Close closes the file, and lets another process own it. If the file is no longer in its place, Close first writes it back.
func (f *File) Close() {
	if f.stop != nil {
		f.stop()
		f.writeBack()
	}
	for _, db := range []*sql.DB{f.second, f.db} {
		if db != nil {
			_ = db.Close()
		}
	}
	for _, locked := range []*os.File{f.inode, f.lock} {
		if locked != nil {
			unlock(locked)
		}
	}
}
