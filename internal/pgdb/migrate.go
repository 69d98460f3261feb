package pgdb

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"kubecdc/internal/schema"
)

// The advisory lock that one process holds while it makes or changes a schema: "kubecdc" as a number.
const migrationLock = 0x6b756265636463

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
	provider, err := schema.Provider(goose.DialectPostgres, db, o.Migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	return schema.Up(ctx, provider)
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
