// Package mirror follows a log in Kafka, with all its clusters, into an SQLite file, which answers questions in milliseconds. It
// is a consumer: it needs only the right to read, and writes nothing but its file, which can be deleted at any time.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"kubecdc/audit"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/internal/wait"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// Options say where the file is, and how much it retains.
type Options struct {
	Path     string
	History  time.Duration
	MaxBytes int64
	Logger   *slog.Logger
	Show     func(what string, done, total int64) // shows how far long work is, in records, or is nil
}

// Mirror is a file that follows a log.
type Mirror struct {
	Options
	from     sinks.Copier
	file     *sqlitefile.File
	sink     *sqlite.Sink
	copy     *sqlite.Copy
	has      sqlite.Copied
	progress atomic.Pointer[Progress]
	pruned   time.Time
	tooLarge int64 // the size at which the file is pruned again
}

// Progress is how far a mirror is.
type Progress struct {
	UpTo        time.Time // the mirror has the log up to then, or has nothing yet
	Complete    bool      // it has come to the log's end once since its start
	Done, Total int64     // records until then
}

const (
	followEvery = 500 * time.Millisecond // how often the end of the log is asked for
	pruneEvery  = time.Minute
	atOnce      = 2000 // changes, or audit records
)

// ErrAnew says that the mirror can't continue. The file follows another log, the log has lost the next records, or the file could
// not be created.
var ErrAnew = errors.New("the mirror begins anew at the next start")

// Open opens the file to continue it. If the file has another log, or no log, it is created anew. Then it is empty until Run or
// Update.
func Open(ctx context.Context, from sinks.Copier, o Options) (*Mirror, error) {
	m := &Mirror{Options: o, from: from}
	if m.Show == nil {
		m.Show = func(string, int64, int64) {}
	}
	m.progress.Store(&Progress{})
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
		err = m.makeAnew(ctx)
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
	m.sink, err = sqlite.New(ctx, m.file, sqlite.Config{History: m.History, MaxSize: m.MaxBytes, Logger: m.Logger})
	if err == nil {
		m.copy, m.has, err = m.sink.NewCopy(ctx)
	}
	return err
}

func (m *Mirror) makeAnew(ctx context.Context) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(m.Path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return m.open(ctx)
}

// begin writes the last state of each object where the log's batch records begin.
func (m *Mirror) begin(ctx context.Context, identity string) error {
	b, err := m.from.Beginning(ctx)
	if err == nil && !b.Logged.IsZero() {
		err = m.lived(ctx, b)
	}
	if err == nil {
		delete(b.Lost, "")
		m.has = sqlite.Copied{Identity: identity, After: b.After}
		err = m.copy.Begin(ctx, identity, b)
	}
	return err
}

// lived copies what lived at the beginning.
func (m *Mirror) lived(ctx context.Context, b *sinks.Beginning) error {
	pending, changes := map[string]*sinks.Copied{}, 0 // by cluster
	write := func() error {
		for cluster, lived := range pending {
			if _, known := b.Lost[cluster]; !known {
				b.Lost[cluster] = b.Lost[""]
			}
			if err := m.copy.Lived(ctx, lived); err != nil {
				return err
			}
		}
		clear(pending)
		changes = 0
		m.prune(ctx)
		return nil
	}
	progress := func(read, total int64) { m.show("reading what lived where the log begins", read, total) }
	err := m.from.Lived(ctx, b, progress, func(l *sinks.Logged) error {
		lived := pending[l.Cluster]
		if lived == nil {
			lived = &sinks.Copied{Cluster: l.Cluster, Logged: b.Logged, Stubs: map[int]string{}}
			pending[l.Cluster] = lived
		}
		if l.DeadLetter != "" {
			lived.Stubs[len(lived.Changes)] = l.DeadLetter
		}
		lived.Changes = append(lived.Changes, l.Clone().Change)
		if changes++; changes < atOnce {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return err
}

// show shows how far the mirror is, while it fills.
func (m *Mirror) show(what string, done, total int64) {
	m.progress.Store(&Progress{UpTo: m.progress.Load().UpTo, Done: done, Total: total})
	m.Show(what, done, total)
}

// Progress returns how far the mirror is.
func (m *Mirror) Progress() Progress { return *m.progress.Load() }

// Run follows the log until the context ends, or until it has to begin anew (ErrAnew), and closes the file. After another error
// it tries again.
func (m *Mirror) Run(ctx context.Context) error {
	defer m.Close()
	reported, began := "", time.Now()
	for {
		isFilling := !m.Progress().Complete
		err := m.step(ctx)
		if isFilling && err == nil {
			m.Logger.Info("the mirror has come to the log's end, and follows it", "took",
				time.Since(began).Round(time.Millisecond))
		}
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
		m.prune(ctx)
		if err := wait.For(ctx, followEvery); err != nil {
			return err
		}
	}
}

// prune removes old changes once a minute, and when the file has grown by a tenth of its limit, as it does while it fills.
func (m *Mirror) prune(ctx context.Context) {
	if time.Since(m.pruned) < pruneEvery && m.size() <= m.tooLarge {
		return
	}
	m.pruned = time.Now()
	if err := m.sink.Prune(ctx, m.pruned); err != nil && ctx.Err() == nil {
		m.Logger.Warn("old changes could not be removed from the mirror; it is tried again", "error", err)
	}
	m.tooLarge = max(m.size(), m.MaxBytes) + m.MaxBytes/10
}

// size returns the size of the file, or 0 if that is not known.
func (m *Mirror) size() int64 {
	info, err := os.Stat(m.Path)
	if err != nil {
		return 0
	}
	return info.Size()
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
	began := time.Now()
	err := m.follow(ctx)
	if err == nil {
		err = m.copyAudits(ctx)
	}
	if err == nil {
		m.progress.Store(&Progress{UpTo: began, Complete: true})
	}
	return err
}

// follow copies up to the end of the log.
func (m *Mirror) follow(ctx context.Context) error {
	identity, err := m.from.Identity(ctx)
	switch {
	case err != nil:
		return err
	case m.has.Identity == "":
		err = m.begin(ctx, identity)
	case identity != m.has.Identity:
		err = fmt.Errorf("the log was %s, and is %s", m.has.Identity, identity)
	}
	if err != nil {
		return m.anew(ctx, err)
	}
	var end sinks.Cut
	if !m.Progress().Complete {
		end, err = m.from.End(ctx)
	}
	if err == nil {
		err = m.from.Copy(ctx, m.has.After, m.write(ctx, end))
	}
	if errors.Is(err, sqlite.ErrNumbersAgain) || errors.Is(err, sinks.ErrNotRetained) {
		return m.anew(ctx, err)
	}
	return err
}

func (m *Mirror) anew(ctx context.Context, why error) error {
	return errors.Join(fmt.Errorf("%w: %w", ErrAnew, why), m.copy.Mark(ctx, sqlite.Copied{}))
}

func (m *Mirror) write(ctx context.Context, end sinks.Cut) func([]sinks.Copied, sinks.Cut) error {
	before := recordsBefore(m.has.After)
	return func(batches []sinks.Copied, after sinks.Cut) error {
		has := m.has
		has.After = after
		if err := m.copy.Write(ctx, batches, has); err != nil {
			return err
		}
		m.has = has
		m.prune(ctx)
		if len(batches) > 0 && !m.Progress().Complete {
			m.progress.Store(&Progress{UpTo: batches[len(batches)-1].Logged})
			m.show("copying the topics", recordsBefore(m.has.After)-before, recordsBefore(end)-before)
		}
		return nil
	}
}

// recordsBefore counts the records of the topics that a mirror follows before a cut.
func recordsBefore(c sinks.Cut) (n int64) {
	for _, partitions := range c.Offsets {
		for _, offset := range partitions {
			n += offset
		}
	}
	return n
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
