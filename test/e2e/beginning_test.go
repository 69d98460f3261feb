package e2e

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Somebody removes a resource's records from the log: while no exporter runs, then while one runs, and then the checkpoint is lost
// too. Questions are refused until the exporter has noticed. A gap record names the lost records, live objects are in the log
// again, and nothing is said about other resources.
func TestWhatIsRemovedFromKafkaIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := NewWorld(t)
	testRemoved(t, w, func() { removeTopicRecords(t, w, ConfigMaps) })
	removeTopicRecords(t, w, ConfigMaps)
	dropCheckpoint(t, w)
	mendedBy(t, w, w.Writer(t, removedKinds), 3)
}

var removedKinds = []Kind{ConfigMaps, Roles}

func testRemoved(t *testing.T, w *World, remove func()) {
	t.Helper()
	w.Env["KUBECDC_RESOURCES"], w.Env["KUBECDC_PROOF_INTERVAL"] = Resources(removedKinds), "1s"
	writer := w.Writer(t, removedKinds).Fill(10)
	runFor(t, w.Env, func() {
		writer.Run(40)
		w.AwaitComplete(t, writer, removedKinds)
	})
	wantAnswered(t, w)
	remove()
	for _, ask := range [][]string{{"state", "configmaps", "-A"}, {"diff", "configmaps", "-A", "--from", "1h"},
		{"replay", "configmaps", "--from", "start", "--to-stdout", "--execute"}} {
		if out, errs, code := offline(t, w.Env, ask...); code == 0 || !strings.Contains(errs, "removed") {
			t.Errorf("exporter %s of what was removed ends with %d:\n%s%s", ask, code, out, errs)
		}
	}
	if _, errs, _ := offline(t, w.Env, "history", "configmaps", "-A"); !strings.Contains(errs, "removed") {
		t.Errorf("history says nothing of what was removed:\n%s", errs)
	}
	succeeds(t, w.Env, "state", "roles", "-A")
	mendedBy(t, w, writer, 1)

	runFor(t, w.Env, func() {
		w.AwaitComplete(t, writer, removedKinds)
		remove()
		awaitControls(t, w, 2, ConfigMaps.Stream(), change.ControlGap)
		w.AwaitComplete(t, writer, removedKinds)
	})
	wantMended(t, w, 2)
}

// mendedBy runs an exporter until it has recorded the loss.
func mendedBy(t *testing.T, w *World, writer *Writer, losses int) {
	t.Helper()
	runFor(t, w.Env, func() {
		awaitControls(t, w, losses, ConfigMaps.Stream(), change.ControlGap)
		w.AwaitComplete(t, writer, removedKinds)
		if out, errs, code := offline(t, w.Env, "status"); code == 0 || !strings.Contains(out, "configmaps") {
			t.Errorf("the status after a loss ends with %d:\n%s%s", code, out, errs)
		}
	})
	wantMended(t, w, losses)
}

// wantMended demands a gap record for each loss, of only that resource, and that the log has the live objects.
func wantMended(t *testing.T, w *World, losses int) {
	t.Helper()
	log := w.Read(t)
	gaps := log.ControlsOf(ConfigMaps.Stream(), change.ControlGap)
	for _, c := range gaps {
		if c.Gap.From != change.UnknownVersion || c.Gap.Complete || !strings.Contains(c.Cause, "removed") {
			t.Errorf("the gap record is %+v, because %s", c.Gap, c.Cause)
		}
	}
	if others := log.ControlsOf(Roles.Stream(), change.ControlGap); len(gaps) != losses || len(others) > 0 {
		t.Errorf("%d gap records of what was removed, want %d, and %d of the rest", len(gaps), losses, len(others))
	}
	WantState(t, w, log, removedKinds...)
	wantAnswered(t, w)
}

// wantAnswered demands that the log answers for the present, and has all objects.
func wantAnswered(t *testing.T, w *World) {
	t.Helper()
	for _, kind := range removedKinds {
		listed, err := dynamic.NewForConfigOrDie(w.Kube.Config).Resource(kind.GVR).List(context.Background(), metav1.ListOptions{})
		must(t, err)
		out := asJSON[struct{ Items []any }](t, succeeds(t, w.Env, "state", kind.ID(), "-A", "-o", "json"))
		if len(out.Items) != len(listed.Items) {
			t.Errorf("the log has %d %s, and the cluster %d", len(out.Items), kind.ID(), len(listed.Items))
		}
	}
}

// removeTopicRecords removes a kind's records, like kafka-delete-records.
func removeTopicRecords(t *testing.T, w *World, kind Kind) {
	t.Helper()
	a := admin(t, w)
	ends, err := a.ListEndOffsets(context.Background(), w.Prefix+"."+kind.ID())
	must(t, err)
	_, err = a.DeleteRecords(context.Background(), ends.Offsets())
	must(t, err)
}

// The same with rows of tables, removed as docs/security.md describes it.
func TestSlowWhatIsRemovedFromPostgresIsWrittenAgain(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	testRemoved(t, w, func() {
		servers.Exec(t, w.Postgres.URL, `delete from kubecdc_log.changes where resource = 'configmaps' and api_group = '';
			delete from kubecdc_log.objects where resource = 'configmaps' and api_group = ''`)
	})
}

func TestSlowWhatIsRemovedFromAFileIsWrittenAgain(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := NewFileWorld(t)
	testRemoved(t, w, func() {
		db, err := sql.Open("sqlite", w.File)
		must(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), `pragma busy_timeout = 30000; delete from log_objects where resource =
			(select id from log_resources where resource = 'configmaps')`)
		must(t, err)
	})
}

// A stream is forgotten, one of its objects is deleted, and the stream is selected again. The log then has the deletion, even if it
// has lost its control records meanwhile.
func TestSlowAForgottenStreamIsSelectedAgain(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	for name, start := range map[string]func(t testing.TB) *World{"kafka": NewWorld, "file": NewFileWorld,
		"postgres": func(t testing.TB) *World { return NewPostgresWorld(t, servers.PostgresOptions{}) }} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			both := w.With("KUBECDC_RESOURCES", Resources(removedKinds))
			one := w.With("KUBECDC_RESOURCES", Resources([]Kind{Roles}))
			w.Env = both
			writer := w.Writer(t, removedKinds).Fill(10)
			runFor(t, both, func() { w.AwaitComplete(t, writer, removedKinds) })
			for round, expired := range []bool{false, true} {
				runFor(t, one, func() {
					awaitControls(t, w, round+1, ConfigMaps.Stream(), change.ControlStreamEnd)
					w.AwaitComplete(t, writer, []Kind{Roles})
				})
				if code, out := forgetStreams(t, one, ConfigMaps.ID()); code != 0 {
					t.Fatalf("exporter forget: %d, %s", code, out)
				}
				writer.Run(40)
				if expired && w.Kafka != nil {
					expireControl(t, w)
				} else if expired {
					break
				}
				runFor(t, both, func() { w.AwaitComplete(t, writer, removedKinds) })
				WantState(t, w, w.Read(t), removedKinds...)
			}
		})
	}
}
