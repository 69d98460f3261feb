package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

var (
	pods        = change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	deployments = change.NewStream(change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}, "", "", "")
)

func event(stream *change.Stream, op change.Op, name, uid, version string) change.Change {
	c := change.Change{Stream: stream, Op: op, Namespace: "default", Name: name, UID: uid, ResourceVersion: change.ResourceVersion(version),
		Time: time.UnixMilli(1_700_000_000_000)}
	if op != change.Delete {
		c.After = fmt.Appendf(nil, `{"uid":%q, "v":%q}`, uid, version)
	}
	if op == change.Update || op == change.Delete {
		c.Before = []byte(`{"was":1}`)
	}
	return c
}

func openLog(t *testing.T, sink sinks.Sink, epoch int64) sinks.Log {
	t.Helper()
	log, recovered := openTail(t, sink, 0, epoch, sinks.Durable{})
	if len(recovered) > 0 {
		t.Fatalf("open with epoch %d: %d batches", epoch, len(recovered))
	}
	return log
}

func openTail(t *testing.T, sink sinks.Sink, slot int, epoch int64, from sinks.Durable) (sinks.Log, []sinks.Recovered) {
	t.Helper()
	opened, err := sink.Open(t.Context(), slot, epoch, from)
	must(t, err)
	recovered, lost, err := sinktest.Tail(t.Context(), opened)
	if err != nil || lost != nil {
		t.Fatalf("lost %v, error %v", lost, err)
	}
	return opened.Log, recovered
}

func write(t *testing.T, log sinks.Log, b *change.Batch) {
	t.Helper()
	if _, err := log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// rows returns a query's rows as text.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.ConnConfig.RuntimeParams["client_encoding"] = "utf8"
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// asking has the connection that rows uses for each test and URL, because connecting takes longer than a query.
var asking sync.Map

func asked(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	key := t.Name() + " " + url
	if conn, found := asking.Load(key); found && conn.(*pgx.Conn).Ping(t.Context()) == nil {
		return conn.(*pgx.Conn)
	}
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "set search_path = kubecdc_log; set time zone 'UTC'"); err != nil {
		t.Fatal(err)
	}
	asking.Store(key, conn)
	return conn
}

func rows(t *testing.T, url, query string) (lines []string) {
	t.Helper()
	conn := asked(t, url)
	results, err := conn.PgConn().Exec(t.Context(), query).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, r := range results[len(results)-1].Rows {
		var fields []string
		for _, v := range r {
			if v == nil {
				v = []byte("null")
			}
			fields = append(fields, string(v))
		}
		lines = append(lines, strings.Join(fields, "|"))
	}
	return lines
}

func wantRows(t *testing.T, url, query string, want ...string) {
	t.Helper()
	if got := rows(t, url, query); !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngives\n  %s\nnot\n  %s", query, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestTheLogCanBeReadAsTables(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	inferred := event(deployments, change.Delete, "api", "u3", "7")
	inferred.Inferred, inferred.Gap = true, "deployments.apps:5"
	objects := 2
	write(t, openLog(t, sink, 4), &change.Batch{Slot: 0, Epoch: 4, Seq: 1,
		Changes:   []change.Change{event(pods, change.Read, "web", "u1", "5"), inferred},
		Positions: []change.Position{{Stream: "pods", ResourceVersion: "9", Time: time.UnixMilli(1_700_000_000_000).UTC()}},
		Controls: []change.Control{
			{Type: change.ControlSnapshotEnd, Cluster: "prod", Epoch: 4, Batch: 1, Stream: "pods", TimeMs: 1_700_000_000_500, Objects: &objects},
			{Type: change.ControlGap, Cluster: "prod", Epoch: 4, Batch: 1, Stream: "deployments.apps", TimeMs: 1_700_000_000_501, Gap: &change.Gap{ID: "deployments.apps:5"}},
		}})
	wantRows(t, url, `select cluster, slot, epoch, batch, n, time, op, api_version, api_group, kind, resource, namespace, name, uid,
			resource_version, inferred, gap, stream, before, after from changes order by slot, epoch, batch, n`,
		`prod|0|4|1|1|2023-11-14 22:13:20+00|r|v1||Pod|pods|default|web|u1|5|f|null|pods|null|{"uid":"u1", "v":"5"}`,
		`prod|0|4|1|2|2023-11-14 22:13:20+00|d|apps/v1|apps|Deployment|deployments|default|api|u3|7|t|deployments.apps:5|deployments.apps|{"was":1}|null`)
	wantRows(t, url, `select epoch, seq, changes, positions from batches`,
		`4|1|2|[{"stream":"pods","resourceVersion":"9","time":"2023-11-14T22:13:20Z"}]`)
	wantRows(t, url, `select n, time, type, stream, record->>'objects', record->'gap'->>'id' from control order by n`,
		`1|2023-11-14 22:13:20.5+00|snapshot-end|pods|2|null`,
		`2|2023-11-14 22:13:20.501+00|gap|deployments.apps|null|deployments.apps:5`)
}

func TestObjectsIsWhatIsLeftWhenAllChangesAreApplied(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	write(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{
		event(pods, change.Create, "kept", "u1", "1"), event(pods, change.Create, "gone", "u2", "2"),
		event(pods, change.Create, "again", "u3", "3"), event(deployments, change.Create, "kept", "u4", "4"),
	}})
	write(t, log, &change.Batch{Epoch: 1, Seq: 2, Changes: []change.Change{
		event(pods, change.Update, "kept", "u1", "5"), event(pods, change.Update, "kept", "u1", "6"),
		event(pods, change.Delete, "gone", "u2", "7"), event(pods, change.Delete, "again", "u3", "8"),
		event(pods, change.Create, "again", "u9", "9"), event(pods, change.Create, "short", "u5", "10"),
		event(pods, change.Delete, "short", "u5", "11"),
	}})
	wantRows(t, url, `select cluster, api_group, resource, namespace, name, kind, uid, resource_version, body->>'v' from objects order by uid`,
		`prod||pods|default|kept|Pod|u1|6|6`, `prod|apps|deployments|default|kept|Deployment|u4|4|4`, `prod||pods|default|again|Pod|u9|9|9`)
	wantRows(t, url, `select count(*) from changes`, `11`)
}

func TestClustersShareTheTables(t *testing.T) {
	url := servers.Database(t)
	for _, cluster := range []string{"east", "west"} {
		sink := open(t, url, cluster)
		defer sink.Close()
		write(t, openLog(t, sink, 1), &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{event(pods, change.Create, "web", "u-"+cluster, "1")}})
	}
	wantRows(t, url, `select cluster, uid from objects order by cluster`, `east|u-east`, `west|u-west`)
}

// Bodies that jsonb refuses, or would write differently, are read back byte for byte.
func TestEveryBodyIsStoredUnchanged(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	bodies := []string{`{"nul":"a\u0000b","half":"\ud800"}`, `{"big":1e400,"same":1,"same":2,  "ü":"\u00fc 日本 🙂"}`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `{"long":"` + strings.Repeat("x", 3<<20) + `"}`}
	b := &change.Batch{Epoch: 1, Seq: 1}
	for i, body := range bodies {
		c := event(pods, change.Update, fmt.Sprint(i), "u", "1")
		c.Before, c.After = []byte(body), []byte(body)
		b.Changes = append(b.Changes, c)
	}
	write(t, openLog(t, sink, 1), b)
	_, recovered := openTail(t, sink, 0, 2, sinks.Durable{})
	for i, c := range recovered[0].Batch.Changes {
		if string(c.After) != bodies[i] {
			t.Errorf("body is %.100q, not %.100q", c.After, bodies[i])
		}
	}
	wantRows(t, url, `select count(*) from changes c join objects o using (cluster, name)
		where c.before::text = c.after::text and o.body::text = c.after::text`, fmt.Sprint(len(bodies)))
}

func TestADatabaseThatCannotHoldAllCharactersIsRefused(t *testing.T) {
	name := servers.UniqueName()
	server := servers.SharedPostgres(t)
	rows(t, server.URL, `create database "`+name+`" encoding latin1 lc_collate 'C' lc_ctype 'C' template template0`)
	t.Cleanup(func() { server.DropDatabase(context.Background(), name) })
	_, err := postgres.Open(t.Context(), postgres.Config{URL: server.URLAt(server.Address, name), Cluster: "prod"})
	if err == nil || !strings.Contains(err.Error(), "LATIN1: make one with encoding UTF8") {
		t.Fatalf("error is %v", err)
	}
}

func TestErrorsSayWhereAndWhatToDo(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://u:secret-pw@127.0.0.1:1/d", Cluster: "prod"})
	if err == nil || !strings.Contains(err.Error(), "u@127.0.0.1:1/d (schema kubecdc_log)") || !strings.Contains(err.Error(), "is the database running") || strings.Contains(err.Error(), "secret-pw") {
		t.Errorf("error is %v", err)
	}
	_, err = postgres.Open(t.Context(), postgres.Config{URL: "postgres://u:secret-pw@h:x/d", Cluster: "prod"})
	if err == nil || !strings.Contains(err.Error(), "KUBECDC_SINK_POSTGRES") || strings.Contains(err.Error(), "secret-pw") {
		t.Errorf("error is %v", err)
	}
}

func TestThePasswordIsReadFromItsFile(t *testing.T) {
	address, err := url.Parse(servers.Database(t))
	must(t, err)
	password, _ := address.User.Password()
	address.User = url.User(address.User.Username())
	config := postgres.Config{URL: address.String(), Cluster: "prod", PasswordFile: filepath.Join(t.TempDir(), "password")}
	if _, err := postgres.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "read KUBECDC_SINK_POSTGRES_PASSWORD_FILE") {
		t.Errorf("without the file the error is %v", err)
	}
	must(t, os.WriteFile(config.PasswordFile, []byte(password+"\n"), 0o600))
	sink, err := postgres.Open(t.Context(), config)
	must(t, err)
	sink.Close()
}

// A row says when its change happened, who made it and what it was, according to the object.
func TestRowsHaveWhatTheObjectTells(t *testing.T) {
	url := servers.Database(t)
	sink := open(t, url, "prod")
	defer sink.Close()
	log := openLog(t, sink, 1)
	defer log.Close()
	c := event(pods, change.Update, "a", "u1", "2")
	c.Provenance = change.Provenance{Time: c.Time.Add(-2 * time.Second).UTC(), Source: change.FromManagedFields,
		Managers: []byte("kubelet"), Fields: []byte("status.phase,spec.nodeName")}
	write(t, log, &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{c}})
	wantRows(t, url, "select extract(epoch from time - happened)::int, happened_from, managers, fields_changed from changes",
		"2|managedFields|kubelet|status.phase,spec.nodeName")
	if got := provenanceOf(t, url); !reflect.DeepEqual(got, c.Provenance) {
		t.Errorf("the reader tells %+v, want %+v", got, c.Provenance)
	}
}

// provenanceOf returns what a reader says about the last change.
func provenanceOf(t *testing.T, url string) (found change.Provenance) {
	t.Helper()
	r, err := postgres.OpenReader(t.Context(), postgres.Config{URL: url, Cluster: "prod"})
	must(t, err)
	defer r.Close()
	err = r.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		found = l.Provenance
		found.Time = found.Time.UTC()
		return nil
	})
	must(t, err)
	return found
}
