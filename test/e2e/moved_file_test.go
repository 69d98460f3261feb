package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kubecdc/internal/sqlitefile"
	"kubecdc/test/servers"
)

// The file of a running exporter is removed, moved or replaced. The exporter says so at once and ends, and an exporter that is
// started again has every change.
func TestTheFileOfARunningExporterIsMoved(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds))
	writer := w.Writer(t, kinds).Fill(30)
	remove := func() error {
		return errors.Join(os.Remove(w.File), os.Remove(w.File+"-wal"), os.Remove(w.File+"-shm"), os.Remove(w.File+".lock"))
	}
	older := func() error {
		copied := filepath.Join(filepath.Dir(w.File), "older.db")
		file, err := sqlitefile.Share(t.Context(), w.File)
		must(t, err)
		_, err = file.DB().Exec(`vacuum into ?`, copied)
		must(t, err)
		file.Close()
		writer.Run(30)
		w.AwaitComplete(t, writer, kinds)
		return os.Rename(copied, w.File)
	}
	for name, c := range map[string]struct {
		move   func() error
		writes bool // meanwhile
		stops  bool // by SIGTERM
	}{
		"removed": {move: remove}, "removed while it is written": {move: remove, writes: true}, "removed before it is stopped": {move: remove, stops: true},
		"moved":                      {move: func() error { return os.Rename(w.File, w.File+".moved") }},
		"its log moved":              {move: func() error { return os.Rename(w.File+"-wal", w.File+".moved") }, writes: true},
		"an older copy in its place": {move: older, writes: true},
	} {
		e := StartExporter(t, name, w.Env).AwaitReady(t)
		writer.Run(20)
		w.AwaitComplete(t, writer, kinds)
		stop := func() {}
		if c.writes {
			stop = writer.Start(50)
			awaitMade(t, writer, writer.Made.Load()+20)
		}
		must(t, c.move())
		if e.Ready() {
			t.Errorf("%s: it is ready", name)
		}
		if c.stops {
			e.Signal(syscall.SIGTERM)
		}
		if code := e.Wait(t); code != 1 || !hasLine(e.Tail(4000), []string{"the file is no longer in its place: "}) {
			t.Errorf("%s: it ends with %d:\n%s", name, code, e.Tail(4000))
		}
		stop()
	}
	e := StartExporter(t, "the last", w.Env)
	writer.Run(20)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	wantOnly(t, w.verified(t, 0))
	e.stop(t)
}

// A checkpoint and a spool are removed while the sink is away, and etcd is compacted. Both are written back.
func TestSlowACheckpointAndASpoolAreRemoved(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	lane, kinds, folder := w.Kafka.Lane(t), []Kind{ConfigMaps, Roles}, t.TempDir()
	writer := w.Writer(t, kinds).Fill(30)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_KAFKA_BROKERS", lane.Address, "KUBECDC_SPOOL_DIR", filepath.Join(folder, "spool"),
		"KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(folder, "checkpoint.db"))
	for _, part := range []string{"checkpoint.db", "spool/*/slot-0.db"} {
		e := StartExporter(t, "without "+part, env).AwaitReady(t)
		w.AwaitComplete(t, writer, kinds)
		lane.Cut()
		writer.Run(50)
		e.awaitSpooled(t, writer.Marks(kinds))
		must(t, w.Kube.Compact(t.Context(), 0))
		found, err := filepath.Glob(filepath.Join(folder, part) + "*")
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is called %s: %v", part, err)
		}
		for _, path := range found {
			must(t, os.Remove(path))
		}
		writer.Run(10)
		if code := e.Wait(t); code != 1 || !hasLine(e.Tail(4000), []string{"the file is no longer in its place: "}) {
			t.Errorf("without %s it ends with %d:\n%s", part, code, e.Tail(4000))
		}
		must(t, lane.Restore())
	}
	StartExporter(t, "the last", env).AwaitReady(t)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
}
