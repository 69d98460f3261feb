package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// openFile opens the log for reading, with or without an exporter. It returns nil while there is none.
func (w *World) openFile(t testing.TB) *sqlite.Reader {
	t.Helper()
	file, err := sqlitefile.Share(context.Background(), w.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	r, err := sqlite.NewReader(context.Background(), file, w.Prefix)
	if err != nil {
		file.Close()
		return nil // the exporter has not yet created it
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// ReadFile reads the SQLite sink's log as if it were topics. It adds a tombstone after each delete, which files don't need.
func (w *World) ReadFile(t testing.TB) *Log {
	t.Helper()
	log := &Log{}
	r := w.openFile(t)
	if r == nil {
		return log
	}
	must(t, r.Changes(context.Background(), sinks.Query{}, func(l *sinks.Logged) error {
		log.Records = append(log.Records, withTombstone(w.record(l))...)
		return nil
	}))
	log.Controls = w.fileControls(t)
	return log
}

func (w *World) record(l *sinks.Logged) Record {
	return Record{Topic: change.Topic(w.Prefix, l.Stream.Resource), Partition: int32(l.Slot), Op: l.Op.String(), Key: l.Change.Key(), UID: l.UID,
		Version: l.ResourceVersion, Inferred: l.Inferred, Before: bytes.Clone(l.Before), After: bytes.Clone(l.After)}
}

func (w *World) fileControls(t testing.TB) (all []change.Control) {
	t.Helper()
	if r := w.openFile(t); r != nil {
		must(t, r.Controls(context.Background(), time.Time{}, nil, func(c *change.Control) error {
			all = append(all, *c)
			return nil
		}))
	}
	return all
}
