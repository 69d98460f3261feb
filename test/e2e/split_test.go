package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/test/servers"
)

// Streams are split by namespace, otherwise, and not at all again, while changes are made and processes are killed.
func TestStreamsAreSplitAndMergedAndNothingIsLost(t *testing.T) {
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, Kinds)
	writer.Fill(20)
	whole := w.Env
	split := w.With("KUBECDC_SLOTS", "4", "KUBECDC_SPLIT", "configmaps@default,configmaps@kube-public,widgets.example.com@default")
	otherwise := w.With("KUBECDC_SLOTS", "4", "KUBECDC_SPLIT", "configmaps@kube-public,configmaps@kube-node-lease,secrets@default")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { writer.Until(stop, 150); close(done) }()
	killedAt(t, whole, failpoint.Written+":60")       // leaves a tail
	killedAt(t, split, failpoint.RollingForward+":1") // in the old layout
	killedAt(t, split, failpoint.ControlWritten+":2") // while the layout changes
	killedAt(t, split, failpoint.Written+":1")        // the first batch after the change
	killedInTurn(t, writer, readLeases(t, w), split)
	killedAt(t, otherwise, failpoint.ControlWritten+":3")
	killedAt(t, otherwise, failpoint.Written+":1")
	killedInTurn(t, writer, readLeases(t, w), otherwise)
	killedAt(t, whole, failpoint.ControlWritten+":1")
	killedAt(t, whole, failpoint.Written+":1") // the first batch of the merged streams is not yet checkpointed
	wantFloors(t, w)
	e := StartExporter(t, "not split any more", whole)
	e.AwaitReady(t)
	awaitMade(t, writer, writer.Made.Load()+200)
	close(stop)
	<-done
	log := w.AwaitComplete(t, writer, Kinds)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
	wantLayouts(t, log, `KUBECDC_SPLIT was "" and is "configmaps@default`, `and is "configmaps@kube-node-lease`, `and is ""`)
	e.Signal(syscall.SIGTERM)
	if code := e.Wait(t, 25*time.Second); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
}

// killedInTurn runs two replicas, and kills them one after the other, sooner than the second could take over: so their
// streams end at different places.
func killedInTurn(t *testing.T, writer *Writer, slots *leases, env map[string]string) {
	t.Helper()
	first, second := StartExporter(t, "the first of two", env), StartExporter(t, "the second of two", env)
	slots.await(30*time.Second, 2, first, second)
	first.AwaitReady(t)
	second.AwaitReady(t)
	first.Kill()
	awaitMade(t, writer, writer.Made.Load()+100)
	second.Kill()
}

func wantLayouts(t *testing.T, log *Log, causes ...string) {
	t.Helper()
	var all []string
	for _, c := range log.Controls {
		if c.Type == change.ControlLayout {
			all = append(all, c.Cause)
		}
	}
	for _, cause := range causes {
		if !strings.Contains(strings.Join(all, "\n"), cause) {
			t.Errorf("the control topic does not say %q but %q", cause, all)
		}
	}
}

// wantFloors: streams were merged that were not equally far. configmaps has three streams in three slots before, so that
// two replicas shared them in any case.
func wantFloors(t *testing.T, w *World) {
	t.Helper()
	conn := connect(t, w.Postgres.URL)
	rows, err := conn.Query(context.Background(), `select name || ' ' || floors from kubecdc.positions join kubecdc.streams on id = stream where floors is not null`)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(all) == 0 {
		t.Error("no stream was merged with one that was further")
	}
	t.Logf("positions with floors: %q", all)
}

// The split changes while first lists are running: what was listed is not told again, and the rest is not forgotten.
func TestStreamsAreSplitAndMergedWhileTheyAreListed(t *testing.T) {
	w := NewWorld(t, servers.KafkaOptions{})
	InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, Kinds)
	writer.Fill(60)
	writer.Run(100)
	whole := w.With("KUBECDC_BATCH_MAX_CHANGES", "10", "KUBECDC_LEASE_DURATION", "1s")
	split := w.With("KUBECDC_BATCH_MAX_CHANGES", "10", "KUBECDC_LEASE_DURATION", "1s", "KUBECDC_SPLIT", "configmaps@default,secrets@default,roles.rbac.authorization.k8s.io@kube-public")
	for _, kill := range []struct {
		env map[string]string
		at  int
	}{{whole, 4}, {split, 6}, {whole, 5}, {split, 5}} {
		killedAt(t, kill.env, fmt.Sprintf("%s:%d", failpoint.Written, kill.at))
	}
	log := w.Read(t)
	t.Logf("killed with %d records in the log, and %d lists ended", len(log.Records), snapshotsEnded(log))
	e := StartExporter(t, "not split any more", whole)
	Await(t, 60*time.Second, "all to be listed", func() (bool, error) { return strings.Contains(e.Tail(4000), "snapshot complete"), nil })
	writer.Run(100)
	log = w.AwaitComplete(t, writer, Kinds)
	Judge(t, w.Kube, log, w.Prefix, Kinds).Demand(t, 0)
}

func snapshotsEnded(log *Log) (n int) {
	for _, c := range log.Controls {
		if c.Type == change.ControlSnapshotEnd {
			n++
		}
	}
	return n
}

// The exporter is stopped, objects come and go in all namespaces, and the API server is restarted.
func TestAGapInASplitStreamIsRecoveredWhole(t *testing.T) {
	w := NewWorld(t, servers.KafkaOptions{})
	kinds := []Kind{ConfigMaps}
	writer := w.Writer(t, kinds)
	writer.Fill(20)
	streams := []string{"configmaps", "configmaps@default", "configmaps@kube-public"}
	env := w.With("KUBECDC_RESOURCES", "configmaps", "KUBECDC_SLOTS", "3", "KUBECDC_SPLIT", "configmaps@default,configmaps@kube-public")
	runFor(t, env, func() {
		writer.Run(50)
		awaitStreams(t, w, writer.mark(ConfigMaps), streams)
	})
	for range 10 {
		writer.Run(20)
		writer.comeAndGo(ConfigMaps)
	}
	must(t, w.Kube.RestartAPIServer(context.Background()))
	runFor(t, env, func() {
		writer.Run(30)
		awaitStreams(t, w, writer.mark(ConfigMaps), streams)
	})
	log := w.Read(t)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	told := map[string]change.Gap{}
	for _, c := range log.Controls {
		if c.Type == change.ControlGap {
			told[c.Stream] = *c.Gap
		}
	}
	for _, stream := range streams {
		g, ok := told[stream]
		if !ok || !g.Complete || g.Inferred > 0 || g.Recovered < 20 {
			t.Errorf("gap of %s: %+v", stream, g)
		}
		t.Logf("%s: %d recovered by %d requests in %d ms", stream, g.Recovered, g.Requests, g.ElapsedMs)
	}
}

// comeAndGo makes an object in each namespace that does not live for long.
func (w *Writer) comeAndGo(kind Kind) {
	for _, namespace := range writeNamespaces {
		name := fmt.Sprintf("brief%d", w.Made.Add(1))
		api := w.client.Resource(kind.GVR).Namespace(namespace)
		w.insist(func(ctx context.Context) error {
			_, err := api.Create(ctx, sample(kind, name, 0, 0), metav1.CreateOptions{})
			return ignore(err, apierrors.IsAlreadyExists)
		})
		w.insist(func(ctx context.Context) error {
			return ignore(api.Delete(ctx, name, metav1.DeleteOptions{}), apierrors.IsNotFound)
		})
	}
}

// awaitStreams waits until each of the streams is complete up to the version.
func awaitStreams(t *testing.T, w *World, version string, streams []string) {
	t.Helper()
	Await(t, 60*time.Second, fmt.Sprintf("the log to be complete up to %s", version), func() (bool, error) {
		left := slices.Clone(streams)
		for _, c := range w.Read(t).Controls {
			for _, p := range c.Positions {
				left = slices.DeleteFunc(left, func(s string) bool {
					return s == p.Stream && change.CompareVersions(p.ResourceVersion, version) >= 0
				})
			}
		}
		return len(left) == 0, nil
	})
}
