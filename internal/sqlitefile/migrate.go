package sqlitefile

import (
	"context"
	"errors"
	"io/fs"

	"github.com/pressly/goose/v3"

	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
)

// Migrate brings the tables of one part up to date. Its migrations are SQL files by number, in the folder migrations. The table
// records which of them were run. It does not change a shared file, and fails if its tables are not of this release.
func (f *File) Migrate(ctx context.Context, embedded fs.FS, table string) error {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	if f.lock == nil {
		return f.Fail("see which release made the tables", f.sameRelease(ctx, files, table))
	}
	return f.Fail("bring the tables up to date", f.migrate(ctx, files, table))
}

func (f *File) migrate(ctx context.Context, files fs.FS, table string) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, f.db, files, goose.WithTableName(table),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > known {
		return fault.NewerTables(int(current), int(known))
	}
	if 0 < current && current < known {
		if ctx, err = dependency.Upgrade(ctx, int(current), int(known)); err != nil {
			return err
		}
	}
	_, err = p.Up(ctx)
	return err
}

func (f *File) sameRelease(ctx context.Context, files fs.FS, table string) error {
	var known, current int64
	names, err := fs.Glob(files, "*.sql")
	for _, name := range names {
		version, e := goose.NumericComponent(name)
		known, err = max(known, version), errors.Join(err, e)
	}
	var tables int
	if err == nil {
		err = f.db.QueryRowContext(ctx, `select count(*) from sqlite_schema where name = $1`, table).Scan(&tables)
	}
	if err == nil && tables > 0 {
		err = f.db.QueryRowContext(ctx, `select max(version_id) from `+table+` where is_applied`).Scan(&current)
	}
	switch {
	case err != nil:
		return err
	case tables == 0:
		return errors.New("the file has no tables of a checkpoint: a copy of a log (replay --to-sqlite) has none, and exporter " +
			"run makes them in a new file")
	case current > known:
		return fault.NewerTables(int(current), int(known))
	case current < known:
		return &fault.OlderTablesError{Current: int(current), Known: int(known)}
	}
	return nil
}
