package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// The Postgres sink works under kill -9 of the exporter at each step, at random moments, and under kill -9 of Postgres. The table
// changes holds etcd's history once and in order. The table objects holds the cluster's state.
func TestThePostgresSinkKeepsEveryChangeOnce(t *testing.T) {
	t.Parallel()
	w := NewPostgresWorld(t, servers.PostgresOptions{})
	storedOnce(t, w, func() {
		w.Postgres.Kill()
		must(t, w.Postgres.Start(context.Background()))
	})
	wantAnotherLogRefused(t, w)
}

// storedOnce kills exporters at each step, and at random moments, while a writer makes changes. It calls meanwhile while the last
// exporter runs. The log must have etcd's history once and in order, and the cluster's state.
func storedOnce(t *testing.T, w *World, meanwhile func()) {
	t.Helper()
	InstallWidgets(t, w.Kube.Config)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	writer, random := NewWriter(t, w.Kube.Config, seed, Kinds), rand.New(rand.NewPCG(seed, 4))
	writer.Fill(30)
	killedAt(t, w.Env, failpoint.Written+":2") // in the snapshot
	stop := writer.Start(60)
	steps := []string{failpoint.RollingForward, failpoint.Received, failpoint.Collected, failpoint.Prepared, failpoint.Written, failpoint.RollingForward, failpoint.Committed}
	if w.File != "" { // no command can follow the log
		steps = []string{failpoint.Received, failpoint.Collected, failpoint.Prepared, failpoint.DataProduced, failpoint.Written}
	}
	for _, step := range steps {
		killedAt(t, w.Env, step+":1")
	}
	for range 2 {
		e := StartExporter(t, "killed at a random moment", w.Env).AwaitReady(t)
		awaitMade(t, writer, writer.Made.Load()+20+random.Int64N(60))
		e.Kill()
	}
	e := StartExporter(t, "the last", w.Env).AwaitReady(t)
	meanwhile()
	awaitMade(t, writer, writer.Made.Load()+100)
	stop()
	Judge(t, w.Kube, w.AwaitComplete(t, writer, Kinds), w.Prefix, Kinds).Demand(t, 0)
	wantObjects(t, w, Kinds)
	e.stop(t)
}

// wantObjects demands that the log's present state is the cluster's.
func wantObjects(t *testing.T, w *World, kinds []Kind) {
	t.Helper()
	WantState(t, w, w.readObjects(t, kinds), kinds...)
}

// wantAnotherLogRefused starts with the same checkpoint and another log, and demands an error that names the wrong setting.
func wantAnotherLogRefused(t *testing.T, w *World) {
	t.Helper()
	url, err := w.Postgres.CreateDatabase(context.Background(), "elsewhere")
	must(t, err)
	e := StartExporter(t, "with another log", w.With("KUBECDC_SINK_POSTGRES", url))
	if code := e.Wait(t); code != 2 {
		t.Errorf("with another log the exit code is %d, want 2", code)
	}
	e.awaitLogged(t, "the checkpoint of cluster", "set KUBECDC_CHECKPOINT to another")
	if n := len(ReadTables(t, url, w.Prefix).Records); n > 0 {
		t.Error(fmt.Sprint(n, " changes were written to the other log"))
	}
}

// readObjects reads the log's present state, from its tables or from its file.
func (w *World) readObjects(t testing.TB, kinds []Kind) *Log {
	t.Helper()
	if w.File == "" {
		return readTableObjects(t, w.Postgres.URL, w.Prefix)
	}
	log, r := &Log{}, w.openFile(t)
	for _, kind := range kinds {
		q := sinks.Query{Each: sinks.Table, Resources: []string{change.ResourceOf(kind.Stream()).ID()}}
		must(t, r.Changes(context.Background(), q, func(l *sinks.Logged) error {
			record := w.record(l)
			record.Op = "c"
			log.Records = append(log.Records, record)
			return nil
		}))
	}
	return log
}

// readTableObjects reads the present state in the Postgres sink's tables.
func readTableObjects(t testing.TB, url, prefix string) *Log {
	t.Helper()
	ctx := context.Background()
	conn := servers.Connect(t, url)
	rows, err := conn.Query(ctx, `select api_group, resource, namespace, name, uid, resource_version, body::text from kubecdc_log.objects`)
	must(t, err)
	log := &Log{}
	var group, resource, namespace, name, uid, version, body string
	_, err = pgx.ForEachRow(rows, []any{&group, &resource, &namespace, &name, &uid, &version, &body}, func() error {
		log.Records = append(log.Records, Record{Topic: change.Topic(prefix, change.Resource{Group: group, Plural: resource}),
			Op: "c", Key: change.ObjectKey(namespace, name), UID: uid, Version: change.ResourceVersion(version), After: []byte(body)})
		return nil
	})
	must(t, err)
	return log
}
