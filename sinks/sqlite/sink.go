// Package sqlite writes the log to one file, for an exporter that needs no server. A batch is one transaction. It contains the
// changes, the positions that they lead to, and the living objects. So the log can return its own state, and no checkpoint has to
// follow it: memory.go.
//
// The log stores a full body of each object from time to time, and deltas in between: body.go. So it can return an object's
// present body at once: bodies.go. What is older than the history, or more than the file may have, is removed: prune.go. Readers
// read in short transactions, so that SQLite's own log can be reused: reader.go.
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

// Kind is this sink's kind.
var Kind = sinks.Kind{Name: "sqlite", Page: "docs/operations.md#the-file", InCheckpoint: true, Deltas: true,
	Copies: []sinks.Each{sinks.Table}}

// Config says which cluster's changes are written, and for how long they are retained.
type Config struct {
	Cluster    string   // the cluster's name: several clusters can share a file
	ClusterUID string   // the cluster's identity, which never changes
	ClusterIDs []string // all identities that the cluster may have been known by

	History time.Duration // how long every change is retained, by default sinks.Forever
	MaxSize int64         // the limit of the file in bytes, or 0: the oldest history is removed
	Logger  *slog.Logger  // by default slog.Default()

	BodyCacheBytes int // each slot's cache of packed bodies of the objects that changed last, by default 16 MB

	// Spool: another log gets the batches later. A slot begins after the batch in sinks.Durable, and times have nanoseconds.
	Spool bool
}

// Sink is a sinks.Sink.
type Sink struct {
	sinks.NoServer
	Config
	file     *sqlitefile.File
	prepared [statements]*sql.Stmt
	pruning  sync.Mutex
	searches sinks.HoleSearch[line]
}

var _ sinks.Sink = (*Sink)(nil)

// New creates the tables in a file that this process owns. The caller closes the file.
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

var errEarlierFormat = errors.New("an earlier build of the exporter has written this log, with bodies in another format: move " +
	"the file " +
	"away, together with -wal, -shm and .lock; exporter run then begins a new log with a snapshot")

// migrate creates the tables, or updates them. It does not change tables of a build before the first release.
func migrate(ctx context.Context, file *sqlitefile.File) error {
	earlier, err := column[int](ctx, file.DB(), `select 1 from pragma_table_info('log_changes') where name = 'depth'`)
	if err == nil && earlier != nil {
		err = errEarlierFormat
	}
	if err != nil {
		return file.Fail("open the log", err)
	}
	return file.Migrate(ctx, migrations, migrated)
}

// Identity identifies the tables, wherever their file is now.
func (s *Sink) Identity(ctx context.Context) (id string, err error) {
	err = s.file.DB().QueryRowContext(ctx, `select id from log_identity`).Scan(&id)
	return "sqlite:" + id, s.file.Fail("find out which log this is", err)
}

// VerifyCluster returns *sinks.OtherClusterError if another cluster of this name has written the log, and nil if none has.
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

// compare returns *sinks.OtherClusterError if the log belongs to another cluster of this name.
func (s *Sink) compare(stored string) error {
	if s.ClusterUID == "" || stored == s.ClusterUID || slices.Contains(s.ClusterIDs, stored) {
		return nil
	}
	return &sinks.OtherClusterError{Log: "sqlite:" + s.file.Path(), Cluster: s.Cluster, Stored: stored, Found: s.ClusterUID,
		Setting: "KUBECDC_CHECKPOINT"}
}

// Close does not close the file, which belongs to the caller.
func (s *Sink) Close() error {
	for _, p := range s.prepared {
		_ = p.Close()
	}
	return nil
}

// storedVersion returns a resourceVersion as it is stored: as a number if that is shorter.
func storedVersion(v change.ResourceVersion) any {
	if v != "" && v[0] != '0' && len(v) <= 18 { // an integer can be converted back without a difference
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return int64(n)
		}
	}
	return string(v)
}
