// Package tables is what checkpoint stores in SQL databases share, mostly statements. The statements are in Postgres' SQL. A
// store of another database translates them (Database), and defines other differences (Dialect). The package knows rows and
// transactions, not the meaning of positions and bodies.
package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync/atomic"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

// Querier runs statements in a database or in a transaction. Its parameters and results are texts with any character, times and
// durations. It scans null as the zero time, other times in UTC.
type Querier interface {
	// Exec returns how many rows were changed.
	Exec(ctx context.Context, query string, args ...any) (changed int64, err error)
	// Row scans the first row. It returns sql.ErrNoRows if there is none.
	Row(ctx context.Context, query string, args []any, into ...any) error
	// Rows scans each row, and calls row after it.
	Rows(ctx context.Context, query string, args []any, into []any, row func() error) error
}

// Database is the database with a store's tables.
type Database interface {
	Querier
	// Begin runs a transaction. It rolls back after an error.
	Begin(ctx context.Context, do func(Querier) error) error
	// Where returns the name of the database, without a password.
	Where() string
	// Fail wraps an error with the operation and the database. It returns nil for nil.
	Fail(op string, err error) error
}

// Dialect is what differs between databases.
type Dialect struct {
	Acquire     string // takes a slot ($1 cluster, $2 slot, $3 owner, $4 ttl, $5 layout, 0 for any): epoch, seq, offsets, is_new
	Inventory   string // a page of objects ($1 cluster, $2 stream, $3 the key before it, $4 how many): key, uid, resource_version
	BodyPage    string // a page of bodies ($1 id of the stream, $2 the key before it, $3 how many): key, base, delta
	PositionsAt string // each stream's newest position in the history ($1 cluster, $2 slot, $3 batch): position
	Selected    string // the selection of each slot's owner ($1 cluster): slot, selected
	Second      string // the current second, as in the table checkpoints
	ByKey       string // makes a transaction find rows by their primary key, or empty if it does so anyway
	// Rebase replaces the bodies of some keys of a stream by new bases.
	Rebase  func(t *Tx, stream int64, keys []string, bodies []checkpoint.Body) error
	Offsets func(change.Offsets) json.RawMessage // returns offsets in their stored form
	Parse   func([]byte) (change.Offsets, error)
}

// Store is the part of a checkpoint.Store that is the same for all databases.
type Store struct {
	Dialect
	db      Database
	cluster atomic.Int64 // id of its row in clusters, or 0 before Bind
	slots   atomic.Int32 // the adopted number, or 0 before Slots
}

// Use sets the database. Call it before other methods.
func (s *Store) Use(db Database, d Dialect) { s.db, s.Dialect = db, d }

// Cluster returns the id of the cluster's row in clusters, or 0 before Bind.
func (s *Store) Cluster() int64 { return s.cluster.Load() }

var errUnbound = errors.New("the store is not bound to a cluster yet: call Bind first")

func (s *Store) Bound() error {
	if s.Cluster() == 0 {
		return errUnbound
	}
	return nil
}

func (s *Store) row(ctx context.Context, query string, args []any, into ...any) error {
	if err := s.Bound(); err != nil {
		return err
	}
	return s.db.Row(ctx, query, args, into...)
}

func (s *Store) rows(ctx context.Context, query string, args []any, into []any, row func() error) error {
	if err := s.Bound(); err != nil {
		return err
	}
	return s.db.Rows(ctx, query, args, into, row)
}

// Tx is a transaction on the rows of the store's cluster.
type Tx struct {
	Querier
	Ctx     context.Context
	Cluster int64
	ids     map[change.StreamID]int64
}

func (s *Store) InTx(ctx context.Context, do func(*Tx) error) error {
	if err := s.Bound(); err != nil {
		return err
	}
	return s.db.Begin(ctx, func(q Querier) error {
		return do(&Tx{Querier: q, Ctx: ctx, Cluster: s.Cluster(), ids: map[change.StreamID]int64{}})
	})
}

// Owned runs a transaction, during which the slot can't be acquired, nor its lease be renewed. It fails with checkpoint.ErrFenced
// or checkpoint.ErrBehind if the slot does not have the epoch.
func (s *Store) Owned(ctx context.Context, slot int, epoch int64, do func(*Tx) error) error {
	return s.InTx(ctx, func(t *Tx) error {
		const lock = `select epoch from kubecdc.slots where cluster = $1 and slot = $2 for no key update`
		var have int64
		if err := t.Row(ctx, lock, []any{t.Cluster, slot}, &have); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := checkpoint.CompareEpochs(have, epoch); err != nil {
			return err
		}
		return do(t)
	})
}

// Do runs a statement, and reports whether it changed a row.
func (t *Tx) Do(query string, args ...any) (changed bool, err error) {
	n, err := t.Exec(t.Ctx, query, args...)
	return n > 0, err
}

// Stream returns the id of a stream's row. It creates the row if it is missing.
func (t *Tx) Stream(name change.StreamID) (id int64, err error) {
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	const record = `insert into kubecdc.streams (cluster, name) values ($1, $2)
		on conflict (cluster, name) do update set name = excluded.name returning id`
	if err = t.Row(t.Ctx, record, []any{t.Cluster, name}, &id); err == nil {
		t.ids[name] = id
	}
	return id, err
}
