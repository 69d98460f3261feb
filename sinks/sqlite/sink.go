// Package sqlite keeps the log in one file, for an exporter that needs no server. A batch is one transaction: its changes, the positions
// that it moves to, and what lives after it. So the log remembers itself what it has, and nothing follows it: memory.go.
//
// The log stores a full body of each object from time to time, and deltas in between: body.go. So it gives an object's present
// body at once: bodies.go. What is older than the history, or more than the file may hold, goes: prune.go. Readers read in short pieces,
// so that none keeps SQLite's own log from being reused: reader.go.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrated is the table of the migrations that were run.
const migrated = "log_migrations"

// Kind is the sink's.
var Kind = sinks.Kind{Name: "sqlite", InCheckpoint: true, Deltas: true, Copies: []sinks.Each{sinks.Table}}

// Config says which cluster's changes are written, and for how long they stay.
type Config struct {
	Cluster    string   // its name: several clusters can share a file
	ClusterUID string   // its identity; it never changes
	ClusterIDs []string // all identities that the cluster may have been known by: a log that names one of them is its own

	History time.Duration // how long every change stays; default sinks.Forever
	MaxSize int64         // of the file, in bytes: the oldest history goes first; default 0: no limit
	Logger  *slog.Logger  // default slog.Default()

	BodyCacheBytes int // of a slot: packed bodies of the objects that changed last; default 16 MB

	// Spool: another log gets the batches later. A slot begins after the batch that sinks.Durable has, and times have nanoseconds.
	Spool bool
}

// Sink is a sinks.Sink.
type Sink struct {
	sinks.NoServer
	Config
	file     *sqlitefile.File
	prepared [statements]*sql.Stmt
	pruning  sync.Mutex
}

var _ sinks.Sink = (*Sink)(nil)

// New makes the tables in a file that this process owns. The caller closes the file.
func New(ctx context.Context, file *sqlitefile.File, c Config) (*Sink, error) {
	c.History, c.Logger = cmp.Or(c.History, sinks.Forever), cmp.Or(c.Logger, slog.Default())
	c.BodyCacheBytes = cmp.Or(c.BodyCacheBytes, 16<<20)
	if err := migrate(ctx, file); err != nil {
		return nil, err
	}
	prepared, err := prepare(ctx, file.DB())
	if err != nil {
		return nil, file.Fail("open the log", err)
	}
	return &Sink{Config: c, file: file, prepared: prepared}, nil
}

var errEarlierForm = errors.New("an earlier build of the exporter has written this log, and its bodies have another form: move the file " +
	"away, with those beside it (-wal, -shm, .lock); exporter run then begins a new log with a snapshot")

// migrate makes the tables, or brings them up to date. It leaves those of a build before the first release as they are.
func migrate(ctx context.Context, file *sqlitefile.File) error {
	earlier, err := column[int](ctx, file.DB(), `select 1 from pragma_table_info('log_changes') where name = 'depth'`)
	if err == nil && earlier != nil {
		err = errEarlierForm
	}
	if err != nil {
		return file.Fail("open the log", err)
	}
	return file.Migrate(ctx, migrations, migrated)
}

// Identity names the tables, wherever their file is now.
func (s *Sink) Identity(ctx context.Context) (id string, err error) {
	err = s.file.DB().QueryRowContext(ctx, `select id from log_identity`).Scan(&id)
	return "sqlite:" + id, s.file.Fail("find out which log this is", err)
}

// VerifyCluster compares as Open does.
func (s *Sink) VerifyCluster(ctx context.Context, _ int, _ sinks.Durable) error {
	var stored string
	err := s.file.DB().QueryRowContext(ctx, `select uid from log_clusters where cluster = ?`, s.Cluster).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return s.file.Fail("see whose log it is", err)
	}
	return s.compare(stored)
}

// compare gives *sinks.OtherClusterError if the log is of another cluster of this name.
func (s *Sink) compare(stored string) error {
	if s.ClusterUID == "" || stored == s.ClusterUID || slices.Contains(s.ClusterIDs, stored) {
		return nil
	}
	return &sinks.OtherClusterError{Log: "sqlite:" + s.file.Path(), Cluster: s.Cluster, Stored: stored, Found: s.ClusterUID,
		Setting: "KUBECDC_CHECKPOINT"}
}

// Close leaves the file open, which is the caller's.
func (s *Sink) Close() error {
	for _, p := range s.prepared {
		_ = p.Close()
	}
	return nil
}

// storedVersion is a resourceVersion as the tables have it: a number where that is shorter.
func storedVersion(v change.ResourceVersion) any {
	if v != "" && v[0] != '0' && len(v) <= 18 { // an integer gives it back as it is
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return int64(n)
		}
	}
	return string(v)
}
