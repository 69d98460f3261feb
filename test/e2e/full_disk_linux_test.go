package e2e

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubecdc/test/servers"
)

// If the disk is full, the exporter stops writing, and the log says so. Once there is room, the same process goes on, and nothing
// is lost.
func TestSlowAFullDiskUnderTheEmbeddedLog(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("this user can't mount a small disk: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	w := NewFileWorld(t)
	w.File = filepath.Join(folder, "log.db")
	kinds := []Kind{ConfigMaps, Roles}
	w.Env = w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_CHECKPOINT", "sqlite:"+w.File)
	writer := w.Writer(t, kinds).Fill(30)
	e := StartExporter(t, "the exporter", w.Env).AwaitReady(t)
	filler := fill(t, folder)
	stop := writer.Start(50)
	e.awaitLogged(t, "the disk is full: make room; it goes on by itself")
	made := writer.Made.Load()
	awaitMade(t, writer, made+50)
	must(t, os.Remove(filler))
	awaitMade(t, writer, made+100)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	wantOnly(t, w.verified(t, 0))
	e.stop(t)
}

// If the spool's disk is full, nothing is read until there is room or the sink is back, and nothing is lost.
func TestSlowAFullDiskUnderTheSpool(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	folder, kinds := t.TempDir(), []Kind{ConfigMaps, Roles}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("this user can't mount a small disk: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	w := NewWorld(t)
	lane := w.Kafka.Lane(t)
	writer := w.Writer(t, kinds).Fill(30)
	e := StartExporter(t, "the exporter", w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_SPOOL_DIR", folder, "KUBECDC_KAFKA_BROKERS", lane.Address))
	e.AwaitReady(t)
	w.AwaitComplete(t, writer, kinds)
	lane.Cut()
	stop := writer.Start(50)
	e.awaitLogged(t, "the sink does not take batches: they go into the spool")
	e.awaitMetric(t, "kubecdc_spool_batches", "", 3)
	filler := fill(t, folder)
	e.awaitWrong(t, "sink: slot 0: ", "nothing is read, since the spool is full")
	must(t, os.Remove(filler))
	stop()
	e.awaitSpooled(t, writer.Marks(kinds))
	e.AwaitReady(t)
	stop = writer.Start(50)
	fill(t, folder)
	e.awaitWrong(t, "sink: slot 0: ", "nothing is read, since the spool is full")
	stop()
	must(t, lane.Restore())
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
	e.awaitLogged(t, "the sink has all that was in the spool")
}

// fill fills the disk, and returns the file to remove.
func fill(t *testing.T, folder string) (path string) {
	t.Helper()
	filler, err := os.Create(filepath.Join(folder, "filler"))
	must(t, err)
	defer filler.Close()
	if _, err = io.Copy(filler, rand.Reader); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return filler.Name()
}
