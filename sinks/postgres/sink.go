// Package postgres keeps the log in tables: every change, the current state of every object, and the control records. A batch
// is one statement, so it is written whole or not at all. The package knows nothing of the API server, and of checkpoints only
// sinks.Durable: its own tables say what is durable.
package postgres

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
	"kubecdc/sinks"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema holds the tables; it is made when it does not exist. Every statement names it. It is not the checkpoint's: both may be
// in one database.
const schema = "kubecdc_log"

// Kind is the sink's. The checkpoint must not forget what it acknowledged: partitions may be dropped after that.
var Kind = sinks.Kind{Name: "postgres", RebuildsCheckpoint: true, Spools: true, Copies: []sinks.Each{sinks.Table, sinks.Last}}

// maxConns lets slots write side by side.
const maxConns = 8

// Config says where the tables are, and which cluster's changes are written there.
type Config struct {
	URL          string   // as libpq reads it: postgres://user:password@host:port/database?…
	PasswordFile string   // read at each connect, in place of a password in the URL; empty: none
	Cluster      string   // the column cluster of all rows; several clusters can share the tables
	ClusterUID   string   // the cluster's identity; it never changes
	ClusterIDs   []string // all identities that the cluster may have been known by: tables that name one of them are its own

	// History is how long every change stays, at least. Default sinks.Forever.
	History time.Duration
	Upkeep  time.Duration // how often partitions are made ahead, and old ones dropped; default an hour
	Logger  *slog.Logger  // default slog.Default()
}

type Sink struct {
	db      *pgdb.DB
	cluster string
	uid     string   // of the cluster; empty: it is not compared
	uids    []string // the other identities that it may have been known by
	history time.Duration
	upkeep  time.Duration
	log     *slog.Logger
	open    context.Context // until Close
	close   context.CancelFunc
}

var _ sinks.Sink = (*Sink)(nil)

// Open connects and brings the schema up to date.
func Open(ctx context.Context, c Config) (*Sink, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile,
		Schema: schema, Migrations: migrations, Setting: "KUBECDC_SINK_POSTGRES", MaxConns: maxConns})
	if err != nil {
		return nil, err
	}
	s := &Sink{db: db, cluster: c.Cluster, uid: c.ClusterUID, uids: c.ClusterIDs, history: cmp.Or(c.History, sinks.Forever),
		upkeep: cmp.Or(c.Upkeep, time.Hour), log: cmp.Or(c.Logger, slog.Default())}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Identity names the tables, wherever their server is found now.
func (s *Sink) Identity(ctx context.Context) (string, error) {
	var id string
	err := s.db.QueryRow(ctx, `select id from kubecdc_log.identity limit 1`).Scan(&id)
	if err != nil {
		return "", s.db.Fail("find out which log this is", err)
	}
	return fmt.Sprintf("postgres:%s/%s", schema, id), nil
}

func (s *Sink) Probe(ctx context.Context) error { return s.db.Fail("reach the log", s.db.Ping(ctx)) }

func (s *Sink) Ping(ctx context.Context) error { return s.Probe(ctx) }

// Check finds nothing wrong: Open has made the tables.
func (s *Sink) Check(context.Context, []change.Resource) (r sinks.Report, err error) { return r, nil }

// Close waits for the calls under way and closes the connections.
func (s *Sink) Close() error {
	s.close()
	s.db.Close()
	return nil
}
