// Package postgres keeps checkpoints in a Postgres database, which any number of processes and clusters can share.
// It knows of rows and transactions, not of what the positions and bodies mean.
package postgres

import (
	"context"
	"embed"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/internal/tables"
	"kubecdc/internal/pgdb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema holds the tables; it is made when it does not exist. Every statement names it.
const schema = "kubecdc"

// maxConns lets commits of several slots run side by side: a lease must never wait behind them all.
const maxConns = 8

// Config says where the tables are.
type Config struct {
	URL          string // as libpq reads it: postgres://user:password@host:port/database?…
	PasswordFile string // read at each connect, in place of a password in the URL; empty: none
	// Relaxed commits do not wait for Postgres' disk (synchronous_commit=off). A crash of Postgres may undo the last ones, but
	// never a part of one, nor one before another; the next commit then fails with checkpoint.ErrBehind. It is for sinks whose
	// log can be read back. Leases and epochs are never relaxed, and what was committed before one of them is on the disk with
	// it.
	Relaxed bool
}

// Store is a checkpoint.Store. The clock of every lease is the database's.
type Store struct {
	tables.Store
	db      *pgdb.DB
	relaxed bool
	streams sync.Map // name → id; Acquire asks anew
}

var _ checkpoint.Store = (*Store)(nil)

// Open connects and brings the schema up to date.
func Open(ctx context.Context, c Config) (*Store, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile,
		Schema: schema, Migrations: migrations, Setting: "KUBECDC_CHECKPOINT", MaxConns: maxConns})
	if err != nil {
		return nil, err
	}
	return newStore(db, c.Relaxed), nil
}

func newStore(db *pgdb.DB, relaxed bool) *Store {
	s := &Store{db: db, relaxed: relaxed}
	s.Use(database{pgdb.Querier{DB: db}, db}, dialect)
	return s
}

// Acquire is one statement, so that of two owners who come at once only one gets the slot: see acquire_slot in the migrations.
func (s *Store) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (checkpoint.SlotState, error) {
	s.streams.Clear() // a database that was restored may number them otherwise
	return s.Store.Acquire(ctx, slot, owner, ttl)
}

// Close waits for the calls under way and closes the connections.
func (s *Store) Close() { s.db.Close() }

// streamIDs gives the rows of the streams, which are made where they are missing. It costs a round trip only for
// a stream that this process has not seen yet.
func (s *Store) streamIDs(ctx context.Context, names []change.StreamID) (map[change.StreamID]int32, error) {
	ids := make(map[change.StreamID]int32, len(names))
	var missing []change.StreamID
	for _, name := range names {
		if id, ok := s.streams.Load(name); ok {
			ids[name] = id.(int32)
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ids, nil
	}
	return ids, s.makeStreams(ctx, missing, ids)
}

func (s *Store) makeStreams(ctx context.Context, names []change.StreamID, ids map[change.StreamID]int32) error {
	const note = `insert into kubecdc.streams (cluster, name) select distinct $1::int, unnest($2::text[]) on conflict do nothing`
	if _, err := s.db.Exec(ctx, note, s.Cluster(), names); err != nil {
		return err
	}
	const look = `select name, id from kubecdc.streams where cluster = $1 and name = any ($2)`
	var name change.StreamID
	var id int32
	return pgdb.Querier{DB: s.db}.Rows(ctx, look, []any{s.Cluster(), names}, []any{&name, &id}, func() error {
		ids[name] = id
		s.streams.Store(name, id)
		return nil
	})
}
