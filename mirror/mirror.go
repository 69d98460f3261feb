// Package mirror follows a log in Kafka into an SQLite file, which answers questions in milliseconds. It is a consumer: it needs only
// the right to read, and writes nothing but its file, which can be deleted at any time.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// Options say where the file is, and how much it retains.
type Options struct {
	Path, Cluster string
	History       time.Duration
	MaxBytes      int64
	Logger        *slog.Logger
}

// Mirror is a file that follows a log.
type Mirror struct {
	Options
	from     sinks.Copier
	file     *sqlitefile.File
	sink     *sqlite.Sink
	copy     *sqlite.Copy
	has      sqlite.Copied
	reported time.Time // when progress was last logged
	batches  int64
	begun    chan struct{} // is closed when the file has a batch
}

const (
	followEvery = 500 * time.Millisecond // how often the end of the log is asked for
	tellEvery   = 5 * time.Second
	pruneEvery  = time.Minute
	atOnce      = 2000 // changes, or audit records
)

// ErrAnew says that the log is not the one that the file follows, or that it has lost what comes next.
var ErrAnew = errors.New("the mirror begins anew at the next start")

// Open goes on with the file. If it has another log, or none, it is made with what lived where the log begins.
func Open(ctx context.Context, from sinks.Copier, o Options) (*Mirror, error) {
	m := &Mirror{Options: o, from: from, begun: make(chan struct{})}
	identity, err := from.Identity(ctx)
	if err == nil {
		err = m.open(ctx)
	}
	if sqlitefile.IsDamaged(err) {
		m.has, err = sqlite.Copied{}, nil
	}
	if err == nil && m.has.Identity != identity {
		o.Logger.Info("the mirror begins", "file", o.Path, "log", identity, "was", m.has.Identity)
		m.closeFile()
		err = m.begin(ctx, identity)
	}
	if len(m.has.After.Batches) > 0 {
		close(m.begun)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("mirror the log into %s: %w", o.Path, err)
	}
	return m, nil
}

func (m *Mirror) open(ctx context.Context) (err error) {
	if m.file, err = sqlitefile.Own(ctx, m.Path); err != nil {
		return err
	}
	m.sink, err = sqlite.New(ctx, m.file, sqlite.Config{Cluster: m.Cluster, History: m.History, MaxSize: m.MaxBytes, Logger: m.Logger})
	if err == nil {
		m.copy, m.has, err = m.sink.NewCopy(ctx)
	}
	return err
}

// begin makes the file anew, with the last state of each object where the log's batch records begin.
func (m *Mirror) begin(ctx context.Context, identity string) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(m.Path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := m.open(ctx)
	if err != nil {
		return err
	}
	after, logged, lost, err := m.from.Beginning(ctx)
	if err == nil && after.Batches != nil {
		err = m.lived(ctx, after, logged)
	}
	m.has = sqlite.Copied{Identity: identity, After: after}
	if err == nil {
		err = m.copy.Begin(ctx, m.has, lost)
	}
	return err
}

// lived copies what lived at the beginning, and the time of that.
func (m *Mirror) lived(ctx context.Context, end sinks.Cut, logged time.Time) error {
	var changes []change.Change
	stubs := map[int]string{}
	write := func() error {
		err := m.copy.Lived(ctx, changes, stubs, logged)
		changes = changes[:0]
		clear(stubs)
		return err
	}
	q := sinks.Query{To: &end, Progress: func(read, total int64) { m.tell("read what lived where the log begins", "records", read, "of", total) }}
	err := m.from.Changes(ctx, q, func(l *sinks.Logged) error {
		if l.DeadLetter != "" {
			stubs[len(changes)] = l.DeadLetter
		}
		if changes = append(changes, l.Clone().Change); len(changes) < atOnce {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return err
}

// tell logs the progress of long work from time to time.
func (m *Mirror) tell(what string, attributes ...any) {
	if time.Since(m.reported) > tellEvery {
		m.reported = time.Now()
		m.Logger.Info("mirror: "+what, attributes...)
	}
}

// Begun is closed when the file has a batch.
func (m *Mirror) Begun() <-chan struct{} { return m.begun }

// Run follows the log until the context ends, or until it has to begin anew (ErrAnew), and closes the file. After another error it
// tries again.
func (m *Mirror) Run(ctx context.Context) error {
	defer m.Close()
	var pruned time.Time
	reported := ""
	for {
		err := m.step(ctx)
		if errors.Is(err, ErrAnew) {
			return err
		}
		text := ""
		if err != nil {
			text = fault.Public(err)
		}
		if text != "" && text != reported && ctx.Err() == nil {
			m.Logger.Warn("the log can't be mirrored now; it is tried again", "error", err)
		}
		reported = text
		if time.Since(pruned) > pruneEvery {
			pruned = time.Now()
			if err := m.sink.Prune(ctx, pruned); err != nil && ctx.Err() == nil {
				m.Logger.Warn("old changes could not be removed from the mirror; it is tried again", "error", err)
			}
		}
		if err := wait.For(ctx, followEvery); err != nil {
			return err
		}
	}
}

// Update copies up to the present end of the log.
func (m *Mirror) Update(ctx context.Context) error {
	end, err := m.from.End(ctx)
	if err == nil {
		err = m.step(ctx)
	}
	for err == nil && !m.has.After.Offsets.Has(end.Offsets) {
		if err = wait.For(ctx, followEvery/10); err == nil {
			err = m.step(ctx)
		}
	}
	return err
}

// step copies what the log has more.
func (m *Mirror) step(ctx context.Context) error {
	err := m.follow(ctx)
	if err == nil {
		err = m.copyAudits(ctx)
	}
	return err
}

// follow copies up to the end of the log.
func (m *Mirror) follow(ctx context.Context) error {
	identity, err := m.from.Identity(ctx)
	if err == nil && identity != m.has.Identity {
		return m.anew(ctx, fmt.Errorf("the log was %s, and is %s", m.has.Identity, identity))
	}
	if err == nil {
		err = m.from.Copy(ctx, m.has.After, m.write(ctx))
	}
	if errors.Is(err, sqlite.ErrNumbersAgain) || errors.Is(err, sinks.ErrNotRetained) {
		return m.anew(ctx, err)
	}
	return err
}

func (m *Mirror) anew(ctx context.Context, why error) error {
	return errors.Join(fmt.Errorf("%w: %w", ErrAnew, why), m.copy.Mark(ctx, sqlite.Copied{}))
}

func (m *Mirror) write(ctx context.Context) func([]sinks.Copied, sinks.Cut) error {
	return func(batches []sinks.Copied, after sinks.Cut) error {
		has := m.has
		has.After = after
		if err := m.copy.Write(ctx, batches, has); err != nil {
			return err
		}
		if m.has.After, after = has.After, m.has.After; len(batches) == 0 {
			return nil
		}
		if len(after.Batches) == 0 {
			close(m.begun)
		}
		m.batches += int64(len(batches))
		m.tell("up to "+batches[len(batches)-1].Logged.UTC().Format(time.RFC3339), "batches", m.batches)
		return nil
	}
}

// copyAudits copies the audit records that were written since the last time.
func (m *Mirror) copyAudits(ctx context.Context) error {
	var records []audit.Record
	after, err := m.from.CopyAudits(ctx, m.has.After, func(r *audit.Record) (err error) {
		if records = append(records, *r); len(records)%atOnce == 0 {
			err = m.sink.WriteAudit(ctx, records)
			records = records[:0]
		}
		return err
	})
	if err == nil && len(records) > 0 {
		err = m.sink.WriteAudit(ctx, records)
	}
	if err != nil || len(records) == 0 {
		return err
	}
	m.has.After = after
	return m.copy.Mark(ctx, m.has)
}

// Close closes the file, and the log's reader.
func (m *Mirror) Close() {
	m.closeFile()
	_ = m.from.Close()
}

func (m *Mirror) closeFile() {
	if m.copy != nil {
		m.copy.Close()
		m.copy = nil
	}
	if m.sink != nil {
		_ = m.sink.Close()
		m.sink = nil
	}
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}
