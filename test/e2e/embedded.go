package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// NewFileWorld starts an API server of the test's own: log and checkpoint are in one file.
func NewFileWorld(t testing.TB) *World {
	t.Helper()
	w := &World{Prefix: "e2e", Kube: startKube(t, compaction), File: filepath.Join(t.TempDir(), "log.db")}
	w.Env = map[string]string{
		"KUBECONFIG": w.Kube.Kubeconfig, "KUBECDC_CLUSTER": "e2e", "KUBECDC_RESOURCES": Resources(Kinds),
		"KUBECDC_SINK": "sqlite", "KUBECDC_CHECKPOINT": "sqlite:" + w.File,
		"KUBECDC_LEASE_DURATION": lease.String(), "KUBECDC_WATERMARK_INTERVAL": "1s", "KUBECDC_PAGE_SIZE": "50",
		"KUBECDC_SECRETS": "plain", // the judge compares with what the cluster has
	}
	return w
}

// openFile opens the log for reading, beside an exporter or not; nil while there is none.
func (w *World) openFile(t testing.TB) *sqlite.Reader {
	t.Helper()
	file, err := sqlitefile.Share(context.Background(), w.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	r, err := sqlite.NewReader(context.Background(), file, "e2e")
	if err != nil {
		file.Close()
		return nil // the exporter has not come so far
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// ReadFile reads what the SQLite sink wrote as if it were topics: a delete is followed by a tombstone, which files don't need.
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
		must(t, r.Controls(context.Background(), time.Time{}, func(c *change.Control) error {
			all = append(all, *c)
			return nil
		}))
	}
	return all
}

// readObjects reads the present state that the log has, in its tables or in its file.
func (w *World) readObjects(t testing.TB, kinds []Kind) *Log {
	t.Helper()
	if w.File == "" {
		return ReadObjects(t, w.Postgres.URL, w.Prefix)
	}
	log, r := &Log{}, w.openFile(t)
	for _, kind := range kinds {
		resource := change.ResourceOf(kind.Stream())
		must(t, r.Objects(context.Background(), &resource, false, func(l *sinks.Logged) {
			record := w.record(l)
			record.Op = "c"
			log.Records = append(log.Records, record)
		}))
	}
	return log
}
