// Package postgres stores checkpoints in a Postgres database, which any number of processes and clusters can share. It knows rows
// and transactions, not the meaning of positions and bodies.
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

// schema has the tables, and is created if it does not exist. Every statement names it.
const schema = "kubecdc"

// maxConns is the number of connections. Commits of several slots run in parallel, and a lease must not wait for all of them.
const maxConns = 8

// Config is the location of the tables.
type Config struct {
	URL          string // in libpq's form: postgres://user:password@host:port/database?…
	PasswordFile string // file with the password, which is read at each connect, or empty
	// Relaxed commits do not wait for Postgres' disk (synchronous_commit=off). A crash of Postgres may undo the last commits.
	// It never undoes a part of a commit, nor a commit without all later ones. The next commit then fails with
	// checkpoint.ErrBehind. Set Relaxed only if the sink's log can be read back. Leases and epochs are never relaxed. They also
	// flush earlier commits to the disk.
	Relaxed bool
}

// Store is a checkpoint.Store. Leases use the database's clock.
type Store struct {
	tables.Store
	db      *pgdb.DB
	relaxed bool
	streams sync.Map // name → id; Acquire clears it
}

var _ checkpoint.Store = (*Store)(nil)

// Open connects and migrates the schema.
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

// Acquire is one statement, so that only one of two simultaneous owners gets the slot: see acquire_slot in the migrations.
func (s *Store) Acquire(ctx context.Context, slot int, owner string, ttl time.Duration) (checkpoint.SlotState, error) {
	s.streams.Clear() // a restored database may have other ids
	return s.Store.Acquire(ctx, slot, owner, ttl)
}

// Close waits for running calls, then closes the connections.
func (s *Store) Close() { s.db.Close() }

// streamIDs returns the ids of the streams' rows, and creates missing rows. It makes a round trip only for streams that this
// process has not seen yet.
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
	const record = `insert into kubecdc.streams (cluster, name) select distinct $1::int, unnest($2::text[]) on conflict do nothing`
	if _, err := s.db.Exec(ctx, record, s.Cluster(), names); err != nil {
		return err
	}
	const query = `select name, id from kubecdc.streams where cluster = $1 and name = any ($2)`
	var name change.StreamID
	var id int32
	return pgdb.Querier{DB: s.db}.Rows(ctx, query, []any{s.Cluster(), names}, []any{&name, &id}, func() error {
		ids[name] = id
		s.streams.Store(name, id)
		return nil
	})
}
