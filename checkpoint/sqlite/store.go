// Package sqlite keeps checkpoints in one file, for a single exporter without a database server. It knows of rows
// and transactions, not of what the positions and bodies mean.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/dberror"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a checkpoint.Store in a file that one process has for itself.
//
// The file is locked while it is open (locking_mode=EXCLUSIVE), by a lock that the operating system takes back from a process
// that died. So a process that can open the file knows that no other owner lives, and ends all leases.
type Store struct {
	tables.Store
	file    *sql.DB
	path    string
	members members
}

var _ checkpoint.Store = (*Store)(nil)

// pragmas has synchronous=FULL, which syncs SQLite's log at each commit, so that a commit survives a loss of power. With NORMAL
// the last commits could be undone after the sink was told that it need not keep them.
var pragmas = []string{"locking_mode(exclusive)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(on)",
	"journal_size_limit(67108864)"}

// Open opens the file, and makes one that only its owner can read if there is none. It fails with *checkpoint.InUseError while
// another process has the file open.
func Open(ctx context.Context, path string) (*Store, error) { return open(ctx, path, false) }

// open leaves the leases of a copy as they are in the file.
func open(ctx context.Context, path string, isCopy bool) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path}
	if err := create(path); err != nil {
		return nil, s.fail("make the file", err)
	}
	if s.file, err = sql.Open("sqlite", dsn(path)); err != nil {
		return nil, s.fail("open", err)
	}
	s.file.SetMaxOpenConns(1) // the lock is the connection's
	s.Use(database{querier{s.file}, s}, dialect)
	if err := s.prepare(ctx, isCopy); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

func dsn(path string) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// create makes folder and file. An existing file is not touched: closing a second descriptor of it would end the
// locks that this process may hold on it (fcntl).
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), syncFolder(filepath.Dir(path)))
}

// syncFolder makes the entry of a new file outlast a loss of power.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every file system can
	return d.Close()
}

func (s *Store) prepare(ctx context.Context, isCopy bool) error {
	if err := s.file.PingContext(ctx); err != nil {
		if isBusy(err) {
			return &checkpoint.InUseError{Path: s.path}
		}
		return s.fail("open", err)
	}
	if err := s.migrate(ctx); err != nil {
		return s.fail("bring the tables up to date", err)
	}
	if isCopy {
		return nil
	}
	if err := s.scrub(ctx); err != nil {
		return s.fail("write the file anew, without what may not be kept", err)
	}
	_, err := s.file.ExecContext(ctx, `update slots set lease_until = 0`) // no other owner lives: see Store
	return s.fail("end the leases of earlier owners", err)
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.file, files, goose.WithTableName("migrations"),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	current, known, err := p.GetVersions(ctx)
	if err == nil && current > known {
		err = dberror.Newer(int(current), int(known))
	}
	if err == nil {
		_, err = p.Up(ctx)
	}
	return err
}

// Close closes the file, and lets other processes have it.
func (s *Store) Close() { _ = s.file.Close() }
