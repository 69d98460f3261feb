package pgdb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// The advisory lock that one process holds while it makes or changes a schema: "kubecdc" as a number.
const migrationLock = 0x6b756265636463

// versionTable holds goose's versions; one in each schema.
const versionTable = "migrations"

// migrate makes the schema and brings its tables up to date, one process at a time.
func migrate(ctx context.Context, config *pgx.ConnConfig, o Options) error {
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := createSchema(ctx, db, o.Schema); err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, o.Migrations, goose.WithSessionLocker(locker),
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	return RefuseNewer(ctx, provider)
}

// createSchema looks first, because "create schema if not exists" wants the right to create one even when there is
// nothing to create.
func createSchema(ctx context.Context, db *sql.DB, schema string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock($1)", migrationLock+1); err != nil {
		return err
	}
	var exists bool
	const look = "select exists (select from pg_namespace where nspname = $1)"
	if err := tx.QueryRowContext(ctx, look, schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.ExecContext(ctx, "create schema "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// RefuseNewer fails when the tables were made by a release of this program that knows more than this one.
func RefuseNewer(ctx context.Context, p *goose.Provider) error {
	current, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > known {
		return fmt.Errorf("the tables are of version %d, made by a newer release; this one knows up to version %d: "+
			"run the newer release", current, known)
	}
	return nil
}
