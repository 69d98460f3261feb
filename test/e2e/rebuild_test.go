package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

const rebuilding = "the checkpoint is lost or older than the log"

// The checkpoint's tables are dropped while the exporter is stopped and the cluster changes, so that only the log is left. In the
// second round the API server is restarted too, so that its watches are too old. In the third the rebuild is killed at its first
// page, later, and at its end. In the fourth an old backup of the checkpoint is restored, and the later records of the control
// topic have expired.
func TestALostCheckpointIsRebuiltFromTheLog(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	w.Env["KUBECDC_SLOTS"] = "2"
	writer := w.Writer(t, Kinds).Fill(10)
	runFor(t, w.Env, func() { writer.Run(40); w.AwaitComplete(t, writer, Kinds) })

	dropCheckpoint(t, w)
	writer.Run(50)
	afterRebuild(t, w, writer, w.Env)

	dropCheckpoint(t, w)
	w.Kube.API.Kill()
	must(t, w.Kube.API.Start(context.Background()))
	writer.Run(40)
	afterRebuild(t, w, writer, w.Env)

	dropCheckpoint(t, w)
	writer.Run(40)
	for _, step := range []string{failpoint.Rebuilding + ":1", failpoint.Rebuilt + ":1", failpoint.Rebuilt + ":2"} {
		killedAt(t, w.Env, step)
	}
	afterRebuild(t, w, writer, w.Env)

	must(t, w.Postgres.Backup(context.Background()))
	var expired []change.Control
	runFor(t, w.Env, func() {
		writer.Run(40)
		expired = w.AwaitComplete(t, writer, Kinds).Controls
		expireControl(t, w)
		writer.Run(40)
		w.AwaitComplete(t, writer, Kinds)
	})
	must(t, w.Postgres.Restore(context.Background()))
	writer.Run(40)
	afterRebuild(t, w, writer, w.Env)
	log := w.Read(t)
	log.Controls = append(expired, log.Controls...)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	wantNoGapButRecovered(t, log)
}

// afterRebuild starts an exporter, which must rebuild the checkpoint and go on, and stops it.
func afterRebuild(t *testing.T, w *World, writer *Writer, env map[string]string) {
	t.Helper()
	afterRebuildThatBegins(t, w, writer, env, rebuilding)
}

// afterRebuildThatBegins also demands that the exporter's log has the words at its start.
func afterRebuildThatBegins(t *testing.T, w *World, writer *Writer, env map[string]string, words string) {
	t.Helper()
	e := StartExporter(t, "after the loss", env).AwaitReady(t)
	writer.Run(50)
	w.AwaitComplete(t, writer, Kinds)
	e.awaitLogged(t, words)
	e.awaitLogged(t, "the checkpoint is rebuilt")
	e.stop(t)
}

// wantNoGapButRecovered demands that every gap was recovered.
func wantNoGapButRecovered(t *testing.T, log *Log) {
	t.Helper()
	for _, c := range log.Controls {
		if c.Gap != nil && !c.Gap.Complete {
			t.Errorf("a gap of %s from %s to %s is not complete: %s", c.Stream, c.Gap.From, c.Gap.To, c.Gap.Reason)
		}
	}
}

func dropCheckpoint(t *testing.T, w *World) {
	t.Helper()
	servers.Exec(t, w.Env["KUBECDC_CHECKPOINT"], `drop schema kubecdc cascade`)
}

// expireControl removes all records of the control topic, like its retention.
func expireControl(t *testing.T, w *World) {
	t.Helper()
	a := admin(t, w)
	ends, err := a.ListEndOffsets(context.Background(), w.Prefix+".control")
	must(t, err)
	_, err = a.DeleteRecords(context.Background(), ends.Offsets())
	must(t, err)
}

// The same with an SQLite file: it is removed like an emptyDir, its bodies are damaged, and all records of the control topic
// expire. The positions of the streams are then unknown, so the streams are compared, and the log says so.
func TestSlowALostSQLiteFileIsRebuiltFromTheLog(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	path := filepath.Join(t.TempDir(), "checkpoint.db")
	env := w.With("KUBECDC_CHECKPOINT", "sqlite:"+path)
	writer := w.Writer(t, Kinds).Fill(10)
	for _, lose := range []func(){func() { removeSQLite(t, path) }, func() { damageBodies(t, path) }, func() { damagePages(t, path, 1) },
		func() { damagePages(t, path, 12) }} {
		runFor(t, env, func() { writer.Run(50); w.AwaitComplete(t, writer, Kinds) })
		lose()
		writer.Run(40)
		afterRebuild(t, w, writer, env)
	}
	log := w.Read(t)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	wantNoGapButRecovered(t, log)

	must(t, os.Remove(path))
	expireControl(t, w)
	writer.Run(40)
	afterRebuildThatBegins(t, w, writer, env, "the checkpoint is new: reading what the log has of this slot's streams")
	log = w.Read(t)
	WantState(t, w, log, Kinds...)
	for _, kind := range Kinds {
		said := false
		for _, c := range log.Controls {
			said = said || c.Gap != nil && c.Stream == kind.Stream() && c.Gap.From == "0" && !c.Gap.Complete
		}
		if !said {
			t.Errorf("no gap record says that it is not known how far %s was complete", kind.ID())
		}
	}
}

func removeSQLite(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && suffix == "" {
			t.Fatal(err)
		}
	}
}

// damageBodies gives each object a delta that fits no body.
func damageBodies(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `update inventory set delta = x'01' where delta is not null`)
	must(t, err)
}

// damagePages overwrites a file's pages from a page on, like a bad disk.
func damagePages(t *testing.T, path string, first int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	info, err := file.Stat()
	must(t, err)
	from := first * 4096
	if from >= info.Size() {
		t.Fatalf("the file has %d bytes", info.Size())
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size()-from)), from)
	must(t, err)
}

func TestSlowALostCheckpointIsRebuiltFromThePostgresSink(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	w.Env["KUBECDC_SLOTS"] = "2"
	writer := w.Writer(t, Kinds).Fill(10)
	runFor(t, w.Env, func() { writer.Run(40); w.AwaitComplete(t, writer, Kinds) })
	for _, step := range []string{"", failpoint.Rebuilding + ":1", failpoint.Rebuilt + ":2"} {
		dropCheckpoint(t, w)
		writer.Run(50)
		if step != "" {
			killedAt(t, w.Env, step)
		}
		afterRebuild(t, w, writer, w.Env)
	}
	log := w.Read(t)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	wantNoGapButRecovered(t, log)
	wantObjects(t, w, Kinds)
}

// Two clusters of one name use one Kafka. Run and check refuse the second one with an explanation, and the topics do not change.
// The first one is suspended meanwhile, so that no other writer is active, and then goes on undisturbed.
func TestAnotherClusterOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	InstallWidgets(t, w.Kube.Config)
	other := servers.Lend(t)
	InstallWidgets(t, other.Config)
	NewWriter(t, other.Config, 1, Kinds).Fill(10)
	writer := w.Writer(t, Kinds).Fill(10)
	e := StartExporter(t, "the first cluster's", w.With("KUBECDC_LEASE_DURATION", "10m")).AwaitReady(t)
	writer.Run(40)
	w.AwaitComplete(t, writer, Kinds)
	e.Signal(syscall.SIGSTOP)
	kafka := admin(t, w)
	Await(t, "the first cluster's transaction to end", func() (bool, error) { // its markers come after the answer
		return offsetsOf(t, w, kafka.ListCommittedOffsets) == offsetsOf(t, w, kafka.ListEndOffsets), nil
	})
	before := offsetsOf(t, w, kafka.ListEndOffsets)

	second := w.With("KUBECONFIG", other.Kubeconfig, "KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "second.db"))
	uids := []string{uidOf(t, w.Kube), uidOf(t, other)}
	for range 2 {
		s := StartExporter(t, "the second cluster's", second)
		if code := s.Wait(t); code != 2 {
			t.Errorf("the second cluster's exporter exits with %d, want 2", code)
		}
		s.awaitLogged(t, "another cluster named", uids[0], uids[1], "KUBECDC_CLUSTER", "KUBECDC_KAFKA_TOPIC_PREFIX")
	}
	if code, out := command(t, second, "check"); code == 0 || !strings.Contains(out, uids[0]) || !strings.Contains(out, uids[1]) {
		t.Errorf("check ends with %d\n%s", code, out)
	}
	if after := offsetsOf(t, w, kafka.ListEndOffsets); after != before {
		t.Errorf("the topics are\n%s\nand were\n%s", after, before)
	}

	e.Signal(syscall.SIGCONT)
	writer.Run(40)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	e.stop(t)
	if strings.Contains(e.Tail(1<<20), "the session failed") {
		t.Error("the first cluster's exporter was disturbed")
	}
}

// offsetsOf returns the end of each partition of the world's topics. Equal ends mean that nothing was appended.
func offsetsOf(t *testing.T, w *World, list func(context.Context, ...string) (kadm.ListedOffsets, error)) string {
	t.Helper()
	ends, err := list(context.Background(), topicsOf(t, w)...)
	must(t, err)
	var lines []string
	ends.Each(func(o kadm.ListedOffset) {
		lines = append(lines, fmt.Sprintf("%s/%d ends at %d", o.Topic, o.Partition, o.Offset))
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func uidOf(t *testing.T, k *servers.Kubernetes) string {
	t.Helper()
	namespaces := dynamic.NewForConfigOrDie(k.Config).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	system, err := namespaces.Get(context.Background(), "kube-system", metav1.GetOptions{})
	must(t, err)
	return string(system.GetUID())
}

// Two exporters of one cluster, each with its own checkpoint, fence each other until one says why and ends.
func TestTwoCheckpointsOfOneLogAreFoundOut(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	writer := w.Writer(t, Kinds).Fill(10)
	folder := t.TempDir()
	var both [2]*Exporter
	for i := range both {
		both[i] = StartExporter(t, fmt.Sprint("exporter ", i), w.With("KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(folder, fmt.Sprint(i))))
		if i == 0 {
			both[i].AwaitReady(t)
		}
	}
	ended, _ := oneEnds(t, both, func() { writer.Run(5) })
	if code := ended.Wait(t); code != 3 {
		t.Errorf("it exits with %d, want 3", code)
	}
	ended.awaitLogged(t, "exports the same cluster to the same log with another checkpoint")
	writer.Run(40)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
}

// oneEnds waits until one of two exporters has ended, and returns it with its number.
func oneEnds(t *testing.T, both [2]*Exporter, meanwhile func()) (ended *Exporter, n int) {
	t.Helper()
	Await(t, "one of the two to end", func() (bool, error) {
		meanwhile()
		n = slices.IndexFunc(both[:], func(e *Exporter) bool { return !e.Running() })
		return n >= 0, nil
	})
	return both[n], n
}
