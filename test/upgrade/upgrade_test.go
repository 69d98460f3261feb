package upgrade

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubecdc/test/e2e"
	"kubecdc/test/require"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// place is where an exporter keeps its log and its checkpoint.
type place struct {
	*e2e.World
	name       string
	migrations []string // the folders of the tables that it uses
}

// An exporter of the last release leaves a checkpoint, a log and a backlog, which the API server's watches can't deliver any more.
// The one of this commit goes on there: nothing is lost, repeated or out of order, and the before-images are right. Then
// the last release comes back.
func TestUpgradeFromTheLastRelease(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_UPGRADE") == "" {
		t.Skip("this test builds an earlier exporter: make upgrade runs it")
	}
	last, err := buildRelease(os.Getenv("KUBECDC_TEST_UPGRADE_FROM"))
	must(t, err)
	t.Logf("from %s (%s)", last.ref, last.commit)
	w := e2e.NewWorld(t)
	e2e.InstallWidgets(t, w.Kube.Config)
	writer := w.Writer(t, e2e.Kinds)
	writer.Fill(60)
	places := []place{kafkaAndPostgres(t, w), kafkaAndSQLite(t, w), postgresAlone(t, w)}
	if form, err := last.migrations(last.commit, "sinks/sqlite/migrations"); err == nil && form >= oldestForm {
		places = append(places, oneFile(t, w))
	}

	old := start(t, places, last.binary, "the last release")
	writer.Run(300)
	for i, e := range old {
		places[i].check(t, last)
		e.Kill()
	}
	for _, e := range start(t, places, last.binary, "the last release after a check by this commit") {
		e.Kill()
	}
	writer.Run(200)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	current := start(t, places, e2e.Binary(t), "this commit")
	writer.Run(100)
	judge(t, places, writer)
	for i, e := range current {
		e.Signal(syscall.SIGTERM)
		if code := e.Wait(t); code != 0 {
			t.Fatalf("%s: after SIGTERM the exit code is %d", places[i].name, code)
		}
	}
	writer.Run(50)
	downgrade(t, places, last, writer)
}

// check runs exporter check of this commit, which leaves older tables as they are.
func (p *place) check(t *testing.T, last *release) {
	t.Helper()
	out, err := e2e.Command(t, p.Env, "check").CombinedOutput()
	if says := strings.Contains(string(out), "made by an older release"); says != p.upgraded(t, last) {
		t.Errorf("%s: check says (%v)\n%s", p.name, err, out)
	}
}

// downgrade starts the last release on what this commit has left. If this commit has given the tables a newer version, it is refused.
// With another checkpoint, which it rebuilds from Kafka, it goes on.
func downgrade(t *testing.T, places []place, last *release, writer *e2e.Writer) {
	var possible []place
	for _, p := range places {
		if !p.upgraded(t, last) {
			possible = append(possible, p)
			continue
		}
		e := e2e.StartBinary(t, last.binary, "the last release, "+p.name, p.Env)
		if code := e.Wait(t); code != 1 || !strings.Contains(e.Tail(4000), "made by a newer release") {
			t.Errorf("%s: the last release ends with %d\n%s", p.name, code, e.Tail(4000))
		}
		if p.Kafka != nil {
			p.Env = p.With("KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
			possible = append(possible, p)
		}
	}
	start(t, possible, last.binary, "the last release again")
	judge(t, possible, writer)
}

// upgraded reports whether this commit has given the tables a newer version.
func (p *place) upgraded(t *testing.T, last *release) bool {
	t.Helper()
	for _, folder := range p.migrations {
		before, err := last.migrations(last.commit, folder)
		must(t, err)
		now, err := last.migrations("HEAD", folder)
		must(t, err)
		if now > before {
			return true
		}
	}
	return false
}

func start(t *testing.T, places []place, binary, name string) (all []*e2e.Exporter) {
	t.Helper()
	for _, p := range places {
		all = append(all, e2e.StartBinary(t, binary, name+", "+p.name, p.Env))
	}
	for _, e := range all {
		e.AwaitReady(t)
	}
	return all
}

func judge(t *testing.T, places []place, writer *e2e.Writer) {
	t.Helper()
	for _, p := range places {
		t.Log(p.name)
		e2e.Judge(t, p.Kube, p.AwaitComplete(t, writer, e2e.Kinds), p.Prefix, e2e.Kinds).Demand(t, 0)
	}
}

func kafkaAndPostgres(t *testing.T, w *e2e.World) place {
	t.Helper()
	url, err := w.Postgres.CreateDatabase(context.Background(), "checkpoint")
	must(t, err)
	return placeAt(w, "Kafka with a checkpoint in Postgres", []string{"checkpoint/postgres/migrations"}, "first", "KUBECDC_CHECKPOINT", url)
}

func kafkaAndSQLite(t *testing.T, w *e2e.World) place {
	return placeAt(w, "Kafka with a checkpoint in a file", []string{"checkpoint/sqlite/migrations"}, "second",
		"KUBECDC_CHECKPOINT", "sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"))
}

func postgresAlone(t *testing.T, w *e2e.World) place {
	p := placeAt(w, "Postgres", []string{"checkpoint/postgres/migrations", "sinks/postgres/migrations"}, "third", "KUBECDC_SINK", "postgres")
	p.Kafka = nil
	return p
}

// oldestForm is the oldest form of a log in a file that is taken over.
const oldestForm = 3

func oneFile(t *testing.T, w *e2e.World) place {
	file := filepath.Join(t.TempDir(), "log.db")
	p := placeAt(w, "SQLite", []string{"checkpoint/sqlite/migrations", "sinks/sqlite/migrations"}, "fourth", "KUBECDC_SINK", "sqlite",
		"KUBECDC_CHECKPOINT", "sqlite:"+file)
	p.Kafka, p.File = nil, file
	return p
}

// at gives an exporter a log of its own, as another cluster's.
func placeAt(w *e2e.World, name string, migrations []string, prefix string, pairs ...string) place {
	world := *w
	world.Prefix = prefix
	world.Env = w.With(append(pairs, "KUBECDC_CLUSTER", prefix, "KUBECDC_KAFKA_TOPIC_PREFIX", prefix)...)
	return place{World: &world, name: name, migrations: migrations}
}

var must = require.NoError
