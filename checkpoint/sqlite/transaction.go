package sqlite

import (
	"context"
	"database/sql"

	"kubecdc/change"
)

// transaction is a database transaction on the rows of the cluster that the store is bound to.
type transaction struct {
	*sql.Tx
	ctx     context.Context
	cluster int64
	ids     map[change.StreamID]int64 // of streams
}

func (s *Store) inTx(ctx context.Context, do func(*transaction) error) error {
	if err := s.bound(); err != nil {
		return err
	}
	return s.begin(ctx, func(tx *sql.Tx) error {
		return do(&transaction{Tx: tx, ctx: ctx, cluster: s.cluster.Load(), ids: map[change.StreamID]int64{}})
	})
}

// begin runs a transaction, whether the store is bound or not.
func (s *Store) begin(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// exec runs a statement, and reports whether it changed a row.
func (t *transaction) exec(query string, args ...any) (changed bool, err error) {
	result, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// stream gives the id of the stream's row, which it makes if it is missing.
func (t *transaction) stream(name change.StreamID) (int64, error) {
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	const note = `insert into streams (cluster, name) values (?, ?) on conflict do update set name = name returning id`
	var id int64
	err := t.QueryRowContext(t.ctx, note, t.cluster, name).Scan(&id)
	t.ids[name] = id
	return id, err
}
