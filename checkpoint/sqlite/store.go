// Package sqlite keeps checkpoints in one file, for a single exporter without a database server. It knows of rows
// and transactions, not of what the positions and bodies mean.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/sqlitefile"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a checkpoint.Store in a file that one process owns; others share it with that one. The owner knows that no other owner
// lives, and ends all leases.
type Store struct {
	tables.Store
	file    *sqlitefile.File
	db      *sql.DB // the file's
	mine    bool    // to be closed with the store
	members members
}

var (
	_ checkpoint.Store = (*Store)(nil)
	_ checkpoint.Past  = (*Store)(nil)
)

// Open opens the file as its owner, and makes one that only this user can read if there is none. It fails with
// *checkpoint.InUseError while another process owns it.
func Open(ctx context.Context, path string) (*Store, error) {
	file, err := sqlitefile.Own(ctx, path)
	return opened(ctx, file, err)
}

// Share opens a file that is there, beside its owner, if there is one: to read, and to store signals. It ends no leases, and leaves the
// tables as they are; those of another release it refuses.
func Share(ctx context.Context, path string) (*Store, error) {
	file, err := sqlitefile.Share(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no checkpoint file %s: set KUBECDC_CHECKPOINT, KUBECDC_CLUSTER and KUBECDC_SINK as exporter "+
			"run has them", path)
	}
	return opened(ctx, file, err)
}

func opened(ctx context.Context, file *sqlitefile.File, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	s, err := In(ctx, file)
	if err != nil {
		file.Close()
		return nil, err
	}
	s.mine = true
	return s, nil
}

// In keeps the checkpoint in a file that is open already, and that others keep something in too.
func In(ctx context.Context, file *sqlitefile.File) (*Store, error) {
	s := &Store{file: file, db: file.DB()}
	s.Use(database{querier{s.db}, s}, dialect)
	if err := file.Migrate(ctx, migrations, "migrations"); err != nil || !file.Owned() {
		return s, err
	}
	if err := s.scrub(ctx); err != nil {
		return nil, file.Fail("write the file anew, without what may not be kept", err)
	}
	_, err := s.db.ExecContext(ctx, `update slots set lease_until = 0`) // no other owner lives
	return s, file.Fail("end the leases of earlier owners", err)
}

// File is the file that the checkpoint is in.
func (s *Store) File() *sqlitefile.File { return s.file }

// Close closes the file too, unless it was given open.
func (s *Store) Close() {
	if s.mine {
		s.file.Close()
	}
}
