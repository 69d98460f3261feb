package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
)

// A new owner reads back all of the log or a long tail, and needs little memory.
func TestSlowReadingTheLogBackTakesLittleMemory(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewWorld(t) // no position gets too old during the test
	w.Env["KUBECDC_RESOURCES"] = ConfigMaps.ID()
	t.Run("a lost checkpoint", func(t *testing.T) { rebuildLittle(t, w) })
	t.Run("what others have written", func(t *testing.T) { othersLittle(t, w) })
	uid := uidOf(t, w.Kube)
	t.Run("a tail in Kafka", func(t *testing.T) {
		prefix := w.Prefix + "-tail"
		env := w.With("KUBECDC_KAFKA_TOPIC_PREFIX", prefix)
		tailLittle(t, w, env, func() (sinks.Sink, error) {
			return kafka.New(kafka.Config{Brokers: w.Kafka.Brokers, TopicPrefix: prefix, Partitions: 3, Cluster: w.Env["KUBECDC_CLUSTER"], ClusterUID: uid})
		})
	})
	t.Run("a tail in Postgres", func(t *testing.T) {
		tailLittle(t, w, w.With("KUBECDC_SINK", "postgres"), func() (sinks.Sink, error) {
			return postgres.Open(t.Context(), postgres.Config{URL: w.Postgres.URL, Cluster: w.Env["KUBECDC_CLUSTER"], ClusterUID: uid})
		})
	})
}

// rebuildLittle demands that a process folds a log of 100,000 objects of 1 KB, each written twice, with less than 100 MB. Five
// times as many objects in another log must need hardly more memory.
func rebuildLittle(t *testing.T, w *World) {
	peak := func(objects int) int64 {
		prefix := fmt.Sprint(w.Prefix, "-", objects)
		fillLog(t, w, prefix, objects)
		e := StartExporter(t, fmt.Sprint(objects, " objects"), w.With("KUBECDC_KAFKA_TOPIC_PREFIX", prefix,
			"KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db")))
		e.awaitLogged(t, "the checkpoint is rebuilt")
		peak := e.PeakMemory(t)
		e.Kill()
		return peak
	}
	small, large := peak(20_000), peak(100_000)
	t.Logf("peak RSS %.1f MB with 20,000 objects, %.1f MB with 100,000", float64(small)/1e6, float64(large)/1e6)
	if large > 100e6 || large-small > 20e6 {
		t.Error("that is more than 100 MB, or grows with the objects")
	}
}

// fillLog writes the log that an exporter would have written.
func fillLog(t *testing.T, w *World, prefix string, objects int) {
	t.Helper()
	sink, err := kafka.New(kafka.Config{Brokers: w.Kafka.Brokers, TopicPrefix: prefix, Partitions: 3,
		Cluster: w.Env["KUBECDC_CLUSTER"], ClusterUID: uidOf(t, w.Kube)})
	must(t, err)
	defer sink.Close()
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{New: true})
	must(t, err)
	defer opened.Log.Close()
	filler := strings.Repeat("abcdefgh ", 100)
	for seq, n := uint64(1), 0; n < 2*objects; seq++ {
		b := &change.Batch{Epoch: 1, Seq: seq, Positions: []change.Position{{Stream: ConfigMaps.Stream(), ResourceVersion: "1", Time: time.Now()}}}
		for ; len(b.Changes) < 2000; n++ {
			b.Changes = append(b.Changes, configMap(n%objects, 1000+n, filler))
		}
		_, err := opened.Log.Write(t.Context(), b)
		must(t, err)
	}
}

var configMaps = change.NewStream(change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}, "", "", "")

func configMap(n, version int, text string) change.Change {
	name := fmt.Sprint("object-", n)
	return change.Change{Stream: configMaps, Op: change.Create, Namespace: "default", Name: name, UID: "uid-" + name,
		ResourceVersion: change.ResourceVersion(fmt.Sprint(version)), Time: time.Now(),
		After: fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":"%d"},"data":{"k":"%d %s"}}`, name, version, version, text)}
}

const (
	tailBatches = 30
	tailChanges = 1000 // each 4 KB, in one batch
	tailVersion = 1    // below each stream's position, like the objects in the log
)

// tailLittle rolls forward over 120 MB of batches that another session has written after the checkpoint. The process is killed at
// the twelfth batch, and goes on from there with less than 100 MB. Then it exports the changes that were made since.
func tailLittle(t *testing.T, w *World, env map[string]string, connect func() (sinks.Sink, error)) {
	path := filepath.Join(t.TempDir(), "checkpoint.db")
	env["KUBECDC_CHECKPOINT"] = "sqlite:" + path
	writeFirst(t, env)
	sink, err := connect()
	must(t, err)
	defer sink.Close()
	from := writeTail(t, sink)
	client, err := kubernetes.NewForConfig(w.Kube.Config)
	must(t, err)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{})
	must(t, err)

	killedAt(t, env, failpoint.RollingForward+":12")
	started := time.Now()
	e := StartExporter(t, "the next owner", env)
	Await(t, "/readyz to say how far it is", func() (bool, error) {
		return strings.Contains(e.Wrong(), "its checkpoint is being rolled forward: at batch "), nil
	})
	e.awaitLogged(t, fmt.Sprintf(`rolled the checkpoint forward slot=0 batch=%d batches=%d changes=%d`,
		from+tailBatches, tailBatches-11, (tailBatches-11)*tailChanges))
	Await(t, "the first new record", func() (bool, error) {
		return e.Metric(t, "kubecdc_changes_total", `resource="configmaps"`) > 0, nil
	})
	took, peak := time.Since(started), e.PeakMemory(t)
	t.Logf("peak RSS %.1f MB; the first new record %.1f s after the start", float64(peak)/1e6, took.Seconds())
	if peak > 100e6 {
		t.Error("that is more than 100 MB")
	}
	e.stop(t)
	wantTailOnce(t, sink, path, from)
}

// writeFirst runs an exporter until the log has its first batch.
func writeFirst(t *testing.T, env map[string]string) {
	t.Helper()
	e := StartExporter(t, "the first", env)
	e.awaitMetric(t, "kubecdc_batches_total", "", 1)
	e.stop(t)
}

// writeTail writes as the owner after the one that has just ended. It returns the batch at which the checkpoint stands.
func writeTail(t *testing.T, sink sinks.Sink) (from uint64) {
	t.Helper()
	opened, err := sink.Open(t.Context(), 0, 100, sinks.Durable{New: true})
	must(t, err)
	defer opened.Log.Close()
	past, err := opened.Content.State(t.Context(), sinks.Selection{Stream: func(change.StreamID) bool { return true }})
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for batch := range tailBatches {
		b := &change.Batch{Epoch: 100, Seq: past.Seq + uint64(batch) + 1, Positions: past.Positions}
		for i := range tailChanges {
			n := batch*tailChanges + i
			text := make([]byte, 0, 4000)
			for len(text) < 3900 {
				text = append(text, strings.Repeat(fmt.Sprintf("%016x ", random.Uint64()), 4)...)
			}
			b.Changes = append(b.Changes, configMap(n, tailVersion, string(text)))
		}
		_, err := opened.Log.Write(t.Context(), b)
		must(t, err)
	}
	return past.Seq
}

// wantTailOnce demands that the log has the tail once, and the checkpoint all its objects.
func wantTailOnce(t *testing.T, sink sinks.Sink, checkpoint string, from uint64) {
	t.Helper()
	opened, err := sink.Open(t.Context(), 0, 1000, sinks.Durable{Seq: 0})
	must(t, err)
	defer opened.Log.Close()
	next, seen := uint64(0), 0
	must(t, opened.Tail(t.Context(), func(r *sinks.Recovered) error {
		if next++; r.Batch.Seq != next {
			t.Errorf("batch %d follows batch %d", r.Batch.Seq, next-1)
		}
		tail := r.Batch.Seq > from && r.Batch.Seq <= from+tailBatches
		for i := range r.Batch.Changes {
			c := &r.Batch.Changes[i]
			if strings.HasPrefix(c.Name, "object-") != tail {
				t.Errorf("batch %d has a change of %s", r.Batch.Seq, c.Name)
			}
			if tail {
				seen++
			}
		}
		return nil
	}))
	db, err := sql.Open("sqlite", checkpoint)
	must(t, err)
	defer db.Close()
	objects := 0
	must(t, db.QueryRowContext(context.Background(), `select count(*) from inventory where key like 'default/object-%' and delta is not null`).Scan(&objects))
	if want := tailBatches * tailChanges; seen != want || objects != want || next <= from+tailBatches {
		t.Errorf("%d batches, %d changes of the tail, and %d objects in the checkpoint; want more than %d, %d and %d",
			next, seen, objects, from+tailBatches, want, want)
	}
}

// A process is killed while several batches are in the log and not in the checkpoint. The next process reads them back, and nothing
// is lost or repeated. Objects that changed in them have the right before-images.
func TestACrashWhileBatchesArePending(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps}
	writer := w.Writer(t, kinds).Fill(60)
	env := w.With("KUBECDC_RESOURCES", Resources(kinds), "KUBECDC_BATCH_MAX_CHANGES", "10", "KUBECDC_BEFORE", "full",
		"KUBECDC_CHECKPOINT_INTERVAL", "1m")
	// On a slow machine the checkpoint may have followed before the sixth batch.
	Await(t, "several batches to be pending", func() (bool, error) {
		killedAt(t, env, failpoint.Written+":6")
		next := StartExporter(t, "the next one", env)
		next.awaitLogged(t, "rolled the checkpoint forward")
		if !hasLine(next.Tail(1<<20), []string{"rolled the checkpoint forward", "batches=1 "}) {
			return true, nil
		}
		next.Kill()
		writer.Run(40)
		return false, nil
	})
	writer.Run(40)
	Judge(t, w.Kube, w.AwaitComplete(t, writer, kinds), w.Prefix, kinds).Demand(t, 0)
}
