package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"strings"
	"time"

	driver "modernc.org/sqlite"

	"kubecdc/checkpoint/internal/tables"
)

// Leases use this machine's clock, since the file is here. All times in the tables are microseconds since 1970.
func init() {
	driver.MustRegisterScalarFunction("clock_timestamp", 0,
		func(*driver.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
			return time.Now().UnixMicro(), nil
		})
}

// translator turns the statements of package tables into SQLite's. A single connection needs no locks, and compares texts
// bytewise.
var translator = strings.NewReplacer("kubecdc.", "", "$", "?", "::interval", "", "::bigint", "", " for no key update", "",
	` collate "C"`, "")

// querier runs statements of package tables in the database or in a transaction.
type querier struct {
	db interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

func (q querier) Exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	result, err := q.db.ExecContext(ctx, translator.Replace(query), stored(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q querier) Row(ctx context.Context, query string, args []any, into ...any) error {
	found := false
	err := q.Rows(ctx, query, args, into, func() error {
		found = true
		return nil
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

func (q querier) Rows(ctx context.Context, query string, args []any, into []any, row func() error) error {
	rows, err := q.db.QueryContext(ctx, translator.Replace(query), stored(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	into = append([]any{}, into...)
	for i := range into {
		if t, ok := into[i].(*time.Time); ok {
			into[i] = micros{t}
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := row(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stored returns parameters in the form of the columns.
func stored(args []any) []any {
	all := append([]any{}, args...)
	for i, arg := range all {
		switch v := arg.(type) {
		case time.Time:
			all[i] = v.UnixMicro()
		case time.Duration:
			all[i] = v.Microseconds()
		case json.RawMessage:
			if all[i] = string(v); v == nil {
				all[i] = nil
			}
		}
	}
	return all
}

// micros scans a time in microseconds.
type micros struct{ to *time.Time }

func (m micros) Scan(v any) error {
	if *m.to = (time.Time{}); v != nil {
		*m.to = time.UnixMicro(v.(int64)).UTC()
	}
	return nil
}

// database implements tables.Database.
type database struct {
	querier
	*Store
}

func (d database) Where() string { return "sqlite:" + d.file.Path() }

func (d database) Begin(ctx context.Context, do func(tables.Querier) error) error {
	tx, err := d.Store.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if err := do(querier{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

func (d database) Fail(op string, err error) error { return d.file.Fail(op, err) }
