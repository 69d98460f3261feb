// Package tables is what the checkpoint stores in SQL databases have in common: most of their statements, once. They are written as
// Postgres wants them; a store of another database translates them (Database), and says what else differs (Dialect). It knows of
// rows and transactions, not of what positions and bodies mean.
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

// Querier runs statements: a database, or a transaction in it. It takes and gives texts that hold any character, times, and
// durations. A time that is null is scanned as the zero time, all others in UTC.
type Querier interface {
	// Exec reports how many rows were changed.
	Exec(ctx context.Context, query string, args ...any) (changed int64, err error)
	// Row scans the first row; sql.ErrNoRows if there is none.
	Row(ctx context.Context, query string, args []any, into ...any) error
	// Rows scans one row after another, and calls row after each.
	Rows(ctx context.Context, query string, args []any, into []any, row func() error) error
}

// Database is one in which a store has its tables.
type Database interface {
	Querier
	// Begin runs a transaction, which is undone after an error.
	Begin(ctx context.Context, do func(Querier) error) error
	// Where names the database, without a password.
	Where() string
	// Fail wraps an error with what was tried on this database; nil stays nil.
	Fail(op string, err error) error
}

// Dialect is what differs between databases.
type Dialect struct {
	Acquire     string // takes a slot ($1 cluster, $2 slot, $3 owner, $4 ttl, $5 layout, 0 for any): epoch, seq, offsets, is_new
	Inventory   string // a page of objects ($1 cluster, $2 stream, $3 the key before it, $4 how many): key, uid, resource_version
	BodyPage    string // a page of bodies ($1 id of the stream, $2 the key before it, $3 how many): key, base, delta
	PositionsAt string // each stream's newest position in the history ($1 cluster, $2 slot, $3 batch): position
	Selected    string // what each slot's owner has selected ($1 cluster): slot, selected
	Second      string // the current second, as checkpoints has it
	ByKey       string // makes a transaction find rows by their primary key; empty: it does
	// Rebase replaces the bodies of some keys of a stream by new bases.
	Rebase  func(t *Tx, stream int64, keys []string, bodies []checkpoint.Body) error
	Offsets func(change.Offsets) json.RawMessage // as they are stored
	Parse   func([]byte) (change.Offsets, error)
}

// Store is the part of a checkpoint.Store that does not depend on the database.
type Store struct {
	Dialect
	db      Database
	cluster atomic.Int64 // its row in clusters; 0 before Bind
	slots   atomic.Int32 // the number that was adopted; 0 before Slots
}

// Use sets the database, before all else.
func (s *Store) Use(db Database, d Dialect) { s.db, s.Dialect = db, d }

// Cluster is the cluster's row in clusters; 0 before Bind.
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

// Tx is a transaction on the rows of the cluster that the store is bound to.
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

// Owned runs a transaction during which nobody else can acquire the slot, nor its lease be renewed. It fails with
// checkpoint.ErrFenced or checkpoint.ErrBehind where the slot does not have the epoch.
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

// Stream gives the id of a stream's row, which it makes if it is missing.
func (t *Tx) Stream(name change.StreamID) (id int64, err error) {
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	const note = `insert into kubecdc.streams (cluster, name) values ($1, $2)
		on conflict (cluster, name) do update set name = excluded.name returning id`
	if err = t.Row(t.Ctx, note, []any{t.Cluster, name}, &id); err == nil {
		t.ids[name] = id
	}
	return id, err
}
