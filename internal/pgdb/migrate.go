package pgdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
)

// migrationLock is the advisory lock that a process holds while it makes or changes a schema: "kubecdc" as a number.
const migrationLock = 0x6b756265636463

// migration brings a schema up to date in one transaction: either all of it is there or nothing. It needs no state of a session,
// which a pooler (PgBouncer) would lose. goose, which SQLite's migrations use, locks by session.
type migration struct {
	Options
	tx pgx.Tx
}

// migrate makes the schema and its tables, or brings them up to date, one process at a time. With any default of the server, each
// statement sees what another process has created while this one waited for the lock.
func migrate(ctx context.Context, conn *pgx.Conn, o Options) error {
	has, known, err := o.versions(ctx, conn)
	if err != nil || has == known {
		return err
	}
	if 0 < has && has < known {
		if ctx, err = dependency.Upgrade(ctx, has, known); err != nil {
			return err
		}
	}
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		m := &migration{o, tx}
		version, err := m.version(ctx)
		if err != nil {
			return err
		}
		return m.up(ctx, version)
	})
}

// refuseNewer checks the schema's version for a process that only reads. It accepts a schema if the table of migrations is
// missing or may not be read.
func refuseNewer(ctx context.Context, conn *pgx.Conn, o Options) error {
	has, known, err := o.versions(ctx, conn)
	if err == nil && has > known {
		err = fault.NewerTables(has, known)
	}
	return err
}

// versions returns the version of the schema in the database, and the version of this release. Without a table of migrations that
// may be read, has is 0.
func (o *Options) versions(ctx context.Context, conn *pgx.Conn) (has, known int, err error) {
	if o.Migrations == nil { // the database alone is of interest
		return 0, 0, nil
	}
	err = conn.QueryRow(ctx, "select coalesce(max(version), 0) from "+o.table()).Scan(&has)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == "42P01" || pg.Code == "3F000" || pg.Code == "42501") {
		err = nil
	}
	files, failed := fs.Glob(o.Migrations, "migrations/*.sql")
	return has, len(files), cmp.Or(err, failed)
}

// table names the table of the files that were run.
func (o *Options) table() string { return pgx.Identifier{o.Schema, "migrations"}.Sanitize() }

// version is 0 for a schema that was just made. Each step first checks whether a thing exists, since "if not exists" needs the
// right to create it even then.
func (m *migration) version(ctx context.Context) (version int, err error) {
	if err := m.unless(ctx, "select from pg_namespace where nspname = $1", m.Schema,
		"create schema "+pgx.Identifier{m.Schema}.Sanitize()); err != nil {
		return 0, err
	}
	if err := m.unless(ctx, "select from pg_tables where tablename = 'migrations' and schemaname = $1", m.Schema,
		"create table "+m.table()+" (version int primary key, run_at timestamptz not null default now())"); err != nil {
		return 0, err
	}
	err = m.tx.QueryRow(ctx, "select coalesce(max(version), 0) from "+m.table()).Scan(&version)
	return version, err
}

// unless runs a statement where a query finds nothing.
func (m *migration) unless(ctx context.Context, query, arg, statement string) error {
	found, err := m.tx.Exec(ctx, query, arg)
	if err == nil && found.RowsAffected() == 0 {
		_, err = m.tx.Exec(ctx, statement)
	}
	return err
}

// up runs the files that were not run yet, in the order of their numbers.
func (m *migration) up(ctx context.Context, version int) error {
	files, err := fs.Glob(m.Migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	known := 0
	for _, file := range files { // Glob sorts them
		if known, err = number(file); err == nil && known > version {
			err = m.run(ctx, file, known)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if version > known {
		return fault.NewerTables(version, known)
	}
	return nil
}

func (m *migration) run(ctx context.Context, file string, version int) error {
	text, err := fs.ReadFile(m.Migrations, file)
	if err != nil {
		return err
	}
	// an index may take long
	here := "set local statement_timeout = 0; set local search_path = " + pgx.Identifier{m.Schema}.Sanitize() + ";\n"
	// many statements
	if _, err := m.tx.Conn().PgConn().Exec(ctx, here+string(text)+fixFunctions).ReadAll(); err != nil {
		return err
	}
	_, err = m.tx.Exec(ctx, "insert into "+m.table()+" (version) values ($1)", version)
	return err
}

// fixFunctions sets the search_path of each function to its schema, since callers may have any.
const fixFunctions = `
do $$
declare f regprocedure;
begin
  for f in select oid from pg_proc where pronamespace = current_schema()::regnamespace loop
    execute format('alter function %s set search_path = %I', f, current_schema());
  end loop;
end
$$`

// number gives 1 for migrations/00001_tables.sql.
func number(file string) (int, error) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(file, "migrations/"), "_")
	return strconv.Atoi(digits)
}
