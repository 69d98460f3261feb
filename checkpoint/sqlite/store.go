// Package sqlite stores checkpoints in one file, for a single exporter without a database server. It knows rows and transactions,
// not the meaning of positions and bodies.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/sqlitefile"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a checkpoint.Store in a file that one process owns. Other processes share the file with the owner. The owner knows
// that no other owner lives, and ends all leases.
type Store struct {
	tables.Store
	file     *sqlitefile.File
	db       *sql.DB // the database in the file
	ownsFile bool    // Close closes the file, too
	members  members
}

var (
	_ checkpoint.Store = (*Store)(nil)
	_ checkpoint.Past  = (*Store)(nil)
)

// Open opens the file as its owner. If there is no file, it creates one that only this user can read. It fails with
// *checkpoint.InUseError while another process owns the file.
func Open(ctx context.Context, path string) (*Store, error) {
	file, err := sqlitefile.Own(ctx, path)
	return opened(ctx, file, err)
}

// Share opens an existing file that another process may own, to read, and to store signals. It ends no leases, and does not
// change the tables. It refuses tables of another release.
func Share(ctx context.Context, path string) (*Store, error) {
	file, err := sqlitefile.Share(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no checkpoint file %s: set KUBECDC_CHECKPOINT, KUBECDC_CLUSTER and KUBECDC_SINK as "+
			"exporter "+
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
	s.ownsFile = true
	return s, nil
}

// In stores the checkpoint in an open file, which others also use.
func In(ctx context.Context, file *sqlitefile.File) (*Store, error) {
	s := &Store{file: file, db: file.DB()}
	s.Use(database{querier{s.db}, s}, dialect)
	if err := file.Migrate(ctx, migrations, "migrations"); err != nil || !file.Owned() {
		return s, err
	}
	if err := s.scrub(ctx); err != nil {
		return nil, file.Fail("rewrite the file without redacted values", err)
	}
	_, err := s.db.ExecContext(ctx, `update slots set lease_until = 0`) // no other owner lives
	return s, file.Fail("end the leases of earlier owners", err)
}

// File returns the checkpoint's file.
func (s *Store) File() *sqlitefile.File { return s.file }

// InPlace returns an error if the file was removed, moved or replaced.
func (s *Store) InPlace() error { return s.file.Fail("find the file", nil) }

// Close closes the store, and the file unless it was given to In.
func (s *Store) Close() {
	if s.ownsFile {
		s.file.Close()
	}
}

// Renew renews the lease of a slot. While the owner's own commit takes long, the lease may expire: nobody else could take the
// slot.
func (s *Store) Renew(ctx context.Context, slot int, epoch int64, ttl time.Duration) error {
	err := s.Store.Renew(ctx, slot, epoch, ttl)
	if s.file.Owned() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return err
}
