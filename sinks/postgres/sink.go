// Package postgres writes the log to tables: every change, the current state of every object, and the control records. A batch is
// one statement, so it is written completely or not at all. The package knows nothing of the API server, and nothing of
// checkpoints except sinks.Durable, because its own tables say what is durable.
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

// schema has the tables, and is created if it does not exist. Every statement names it. The checkpoint has another schema, since
// both may be in one database.
const schema = "kubecdc_log"

// Kind is the sink's. The checkpoint must not forget what it acknowledged: partitions may be dropped after that.
var Kind = sinks.Kind{Name: "postgres", Page: "docs/operations.md#the-tables-of-the-postgres-sink", RebuildsCheckpoint: true,
	Spools: true,
	Copies: []sinks.Each{sinks.Table, sinks.Last}}

// maxConns lets several slots write at the same time.
const maxConns = 8

// Config says where the tables are, and which cluster's changes are written there.
type Config struct {
	URL          string   // as libpq reads it: postgres://user:password@host:port/database?…
	PasswordFile string   // if set, replaces the password in the URL, and is read at each connect
	Cluster      string   // the column cluster of all rows, so that several clusters can share the tables
	ClusterUID   string   // the cluster's identity, which never changes
	ClusterIDs   []string // all identities that the cluster may have been known by

	// History is for how long, at least, every change is retained. The default is sinks.Forever.
	History time.Duration
	Upkeep  time.Duration // how often partitions are made ahead and old ones dropped, by default every hour
	Logger  *slog.Logger  // by default slog.Default()
	Later   bool          // Open does not wait for the server, since a spool takes the batches
}

type Sink struct {
	db       *pgdb.DB
	cluster  string
	uid      string   // the cluster's uid, or empty if it is not compared
	uids     []string // the other identities that the cluster may have been known by
	history  time.Duration
	upkeep   time.Duration
	log      *slog.Logger
	open     context.Context // ends with Close
	close    context.CancelFunc
	searches sinks.HoleSearch[number]
}

var _ sinks.Sink = (*Sink)(nil)

// Open connects, and updates the schema, unless that is left to the first call.
func Open(ctx context.Context, c Config) (*Sink, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{URL: c.URL, PasswordFile: c.PasswordFile,
		Schema: schema, Migrations: migrations, Setting: "KUBECDC_SINK_POSTGRES", MaxConns: maxConns, Later: c.Later})
	if err != nil {
		return nil, err
	}
	s := &Sink{db: db, cluster: c.Cluster, uid: c.ClusterUID, uids: c.ClusterIDs, history: cmp.Or(c.History, sinks.Forever),
		upkeep: cmp.Or(c.Upkeep, time.Hour), log: cmp.Or(c.Logger, slog.Default())}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Identity identifies the tables, wherever their server is now.
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

// Close waits for the current calls and closes the connections.
func (s *Sink) Close() error {
	s.close()
	s.db.Close()
	return nil
}
