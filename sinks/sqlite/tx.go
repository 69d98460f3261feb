package sqlite

import (
	"context"
	"database/sql"
)

// statement is one of the statements that run with every batch or change. They are prepared once, on the file's one connection.
type statement int

const (
	findObject statement = iota
	addObject
	moveObject
	setVersion
	countObjects
	addChange
	advance
	lastNumber
	addBatch
	sumBatch
	addControl
	movePosition
	addResource
	addRequester
	addAudit
	statements
)

var texts = [statements]string{
	findObject: `select o.id, o.stream, o.gone, o.unwritten is not null, c.id, c.back, c.body, w.body from log_objects o left ` +
		lastBody +
		`where o.resource = ? and o.key = ? || '/' || ? and o.uid = ?`,
	addObject: `insert into log_objects (id, resource, namespace, name, uid, stream) values (?, ?, ?, ?, ?, ?)
		on conflict do nothing`,
	moveObject:   `update log_objects set stream = ?, gone = ?, unwritten = null where id = ?`,
	setVersion:   `update log_objects set unwritten = ? where id = ?`,
	countObjects: `update log_streams set objects = objects + ? where id = ?`,
	addChange: `insert into log_changes (id, object, stream, op, version, time, gap, back, body, before)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	advance:    `update log_slots set seq = ? where id = ? and epoch = ? and seq = ?`,
	lastNumber: lastBatch,
	addBatch:   `insert into log_batches (id, slot, epoch, seq, written, changes, positions) values (?, ?, ?, ?, ?, ?, ?)`,
	sumBatch:   `update log_batches set sum = ? where id = ?`,
	addControl: `insert into log_controls (batch, n, record) values (?, ?, ?)`,
	movePosition: `insert into log_positions (stream, version, time, ended) values (?, ?, ?, ?)
		on conflict do update set version = excluded.version, time = excluded.time, ended = excluded.ended, forgotten = false`,
	addResource:  `insert into log_resources (cluster, resource) values (?, ?) on conflict do update set resource = excluded.resource returning id`,
	addRequester: `insert into log_requesters (who, told) values (?, ?) on conflict do update set who = excluded.who returning id`,
	addAudit: `insert into log_audit (id, requester, received, time, answered, resource, namespace, name, uid, before, after, created, verb,
		subresource, code, rest) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
}

func prepare(ctx context.Context, db *sql.DB) (all [statements]*sql.Stmt, err error) {
	for i, text := range texts {
		if all[i], err = db.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // Sink.Close closes it
			return all, err
		}
	}
	return all, nil
}

// tx is a write transaction.
type tx struct {
	ctx   context.Context
	tx    *sql.Tx
	sink  *Sink
	bound [statements]*sql.Stmt // bound to the transaction
}

// statement binds a prepared statement when it is first run.
func (t *tx) statement(s statement) *sql.Stmt {
	if t.bound[s] == nil {
		t.bound[s] = t.tx.StmtContext(t.ctx, t.sink.prepared[s])
	}
	return t.bound[s]
}

// inTx runs do in a transaction, which is rolled back if do fails.
func (s *Sink) inTx(ctx context.Context, do func(*tx) error) (err error) {
	defer func() {
		if ended := ctx.Err(); err != nil && ended != nil {
			err = ended // whatever error the driver returns
		}
	}()
	begun, err := s.file.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer begun.Rollback() // does nothing after a commit
	// With a context that may end, the driver would start a goroutine for each statement.
	if err := do(&tx{ctx: context.WithoutCancel(ctx), tx: begun, sink: s}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return begun.Commit()
}

// run runs a prepared statement, and returns how many rows it has changed.
func (t *tx) run(s statement, args ...any) (int64, error) {
	result, err := t.statement(s).ExecContext(t.ctx, args...) //nolint:sqlclosecheck // the transaction's end does
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// find reads the only row of a prepared statement, or returns sql.ErrNoRows.
func (t *tx) find(s statement, args []any, into ...any) error {
	return t.statement(s).QueryRowContext(t.ctx, args...).Scan(into...) //nolint:sqlclosecheck // the transaction's end does
}

// do runs a statement that is rarely needed.
func (t *tx) do(query string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, query, args...)
	return err
}

// row reads one row.
func (t *tx) row(query string, args []any, into ...any) error {
	return t.tx.QueryRowContext(t.ctx, query, args...).Scan(into...)
}
