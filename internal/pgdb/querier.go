package pgdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Querier runs statements in a database or in a transaction. Texts among parameters and columns are escaped (Escape). A null text
// is scanned as an empty text, and a null time as the zero time. All other times are in UTC.
type Querier struct {
	DB interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}
}

// Exec reports how many rows were changed.
func (q Querier) Exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	tag, err := q.DB.Exec(ctx, query, stored(args)...)
	return tag.RowsAffected(), err
}

// Row scans the first row. It returns pgx.ErrNoRows if there is none.
func (q Querier) Row(ctx context.Context, query string, args []any, into ...any) error {
	return q.DB.QueryRow(ctx, query, stored(args)...).Scan(targets(into)...)
}

// Rows scans one row after another, and calls row after each.
func (q Querier) Rows(ctx context.Context, query string, args []any, into []any, row func() error) error {
	rows, err := q.DB.Query(ctx, query, stored(args)...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, targets(into), row)
	}
	return err
}

// Each does what Querier.Rows does. An error of row is returned as it is. Any other error says what was tried.
func (db *DB) Each(ctx context.Context, op, query string, args []any, into []any, row func() error) error {
	var failed error
	err := Querier{db}.Rows(ctx, query, args, into, func() error {
		failed = row()
		return failed
	})
	if failed != nil {
		return failed
	}
	return db.Fail(op, err)
}

// stored returns parameters as the columns have them.
func stored(args []any) []any {
	all := append([]any{}, args...)
	for i, arg := range all {
		if text, ok := arg.(string); ok {
			all[i] = Escape(text)
		}
	}
	return all
}

func targets(into []any) []any {
	all := append([]any{}, into...)
	for i := range all {
		switch to := all[i].(type) {
		case *string:
			all[i] = unescaped{to}
		case *time.Time:
			all[i] = utc{to}
		}
	}
	return all
}

type unescaped struct{ to *string }

func (u unescaped) ScanText(v pgtype.Text) error {
	*u.to = Unescape(v.String)
	return nil
}

type utc struct{ to *time.Time }

func (u utc) ScanTimestamptz(v pgtype.Timestamptz) error {
	*u.to = v.Time.UTC()
	return nil
}
