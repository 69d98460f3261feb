// Package schema brings the tables of an SQLite database up to date from embedded SQL files, by goose. Postgres' are
// brought up to date by internal/pgdb.
package schema

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// versionTable says which files were run.
const versionTable = "migrations"

// Provider reads the SQL files in the folder migrations of files.
func Provider(dialect goose.Dialect, db *sql.DB, files fs.FS, o ...goose.ProviderOption) (*goose.Provider, error) {
	folder, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	o = append(o, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	return goose.NewProvider(dialect, db, folder, o...)
}

// Up runs the files that were not run yet. It fails when the tables were made by a release of this program that
// knows more files than this one.
func Up(ctx context.Context, p *goose.Provider) error {
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > known {
		return Newer(int(current), int(known))
	}
	_, err = p.Up(ctx)
	return err
}

// Newer is the error about tables that were made by a release that knows more files than this one.
func Newer(current, known int) error {
	return fmt.Errorf("the tables are of version %d, made by a newer release, and this one knows up to version %d: "+
		"run the newer release", current, known)
}
