package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// Postgres has every kind of trouble, one after another, under two exporters. One uses it as its sink, the other for its
// checkpoint. Each names the trouble in its log, in /readyz and in its metrics, and goes on without a restart when it is mended. In
// the end nothing is lost.
func TestPostgresInTrouble(t *testing.T) {
	t.Parallel()
	kinds := []Kind{ConfigMaps, Secrets}
	w := NewPostgresWorld(t, servers.PostgresOptions{Settings: map[string]string{"max_connections": "24"}})
	url, fill := smallDatabase(t, w.Postgres)
	proxy, err := servers.NewProxy(w.Postgres.Address)
	must(t, err)
	defer proxy.Close()
	proxied := strings.Replace(url, w.Postgres.Address, proxy.Address, 1)
	writer := w.Writer(t, kinds)
	writer.Pad = 3000
	writer.Run(50)
	env := map[string]string{"KUBECDC_RESOURCES": Resources(kinds), "KUBECDC_BATCH_MAX_CHANGES": "50", "KUBECDC_CLUSTER": "sink",
		"KUBECDC_SINK_POSTGRES": proxied, "KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")}
	sink := StartExporter(t, "with its sink there", w.With(flat(env)...))
	env = map[string]string{"KUBECDC_RESOURCES": Resources(kinds), "KUBECDC_BATCH_MAX_CHANGES": "50", "KUBECDC_CLUSTER": "checkpoint",
		"KUBECDC_SINK": "stdout", "KUBECDC_SINK_POSTGRES": "", "KUBECDC_CHECKPOINT": proxied}
	checkpoint := StartExporter(t, "with its checkpoint there", w.With(flat(env)...))
	sink.AwaitReady(t)
	checkpoint.AwaitReady(t)
	live, err := w.Kube.Revision(context.Background())
	must(t, err)
	who := affected{"sink": sink, "checkpoint": checkpoint}

	who.endure(t, writer, trouble{name: "frozen", hint: "no answer since", make: proxy.Freeze, mend: func() { must(t, proxy.Restore()) }})
	var release func()
	who.endure(t, writer, trouble{name: "out of connections", hint: "raise max_connections",
		make: func() { release = hogConnections(t, w.Postgres.URL) }, mend: func() { release() }})
	who.endure(t, writer, trouble{name: "read-only", hint: "no session may write",
		make: func() { readOnly(t, w.Postgres.URL, "on") }, mend: func() { readOnly(t, w.Postgres.URL, "off") }})
	if fill != nil {
		var empty func()
		who.endure(t, writer, trouble{name: "disk full", hint: "disk is full: make room",
			make: func() { empty = fill() }, mend: func() { empty() }})
	}

	w.Postgres.URL = url
	log := w.AwaitComplete(t, writer, kinds)
	Judge(t, w.Kube, log, w.Prefix, kinds).Demand(t, 0)
	wantObjects(t, w, kinds)
	pipe := &Log{Records: endPipe(t, checkpoint, writer, kinds)}
	for _, kind := range kinds {
		pipe.Controls = append(pipe.Controls, change.Control{Type: change.ControlSnapshotEnd, Stream: kind.Stream(), ResourceVersion: change.ResourceVersion(fmt.Sprint(live))})
	}
	Judge(t, w.Kube, pipe, "pipe", kinds).Demand(t, 50*checkpoint.sessions()) // a batch for each session that ended
	sink.stop(t)
}

func flat(m map[string]string) (pairs []string) {
	for k, v := range m {
		pairs = append(pairs, k, v)
	}
	return pairs
}

// smallDatabase creates a database on its own disk, and returns a function that fills the disk, which returns one that empties it.
// Without the right to mount a disk the database is on the others' disk, and fill is nil.
func smallDatabase(t *testing.T, p *servers.Postgres) (url string, fill func() (empty func())) {
	t.Helper()
	ctx, admin, disk := context.Background(), servers.Connect(t, p.URL), t.TempDir()
	must(t, os.Chmod(filepath.Dir(disk), 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Logf("no full disk is tried: %v: %s", err, out)
		url, err = p.CreateDatabase(ctx, "small")
		must(t, err)
		return url, nil
	}
	t.Cleanup(func() {
		_ = p.Stop()
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	owner, err := os.Stat(filepath.Join(p.Dir, "data"))
	must(t, err)
	id := owner.Sys().(*syscall.Stat_t)
	must(t, os.Chown(disk, int(id.Uid), int(id.Gid)))
	for _, sql := range []string{`create tablespace small location '` + disk + `'`, `create database small tablespace small`} {
		_, err := admin.Exec(ctx, sql)
		must(t, err)
	}
	url = p.URLAt(p.Address, "small")
	return url, func() func() { return fillDisk(t, url) }
}

// fillDisk writes until there is no room, first in large pieces, then in small ones.
func fillDisk(t *testing.T, url string) (empty func()) {
	t.Helper()
	ctx, conn := context.Background(), servers.Connect(t, url)
	_, err := conn.Exec(ctx, `create table filler (x text); alter table filler alter column x set storage plain`)
	must(t, err)
	for _, rows := range []int{1000, 100, 10, 1} {
		for err = nil; err == nil; {
			_, err = conn.Exec(ctx, `insert into filler select repeat('x', 8000) from generate_series(1, $1)`, rows)
		}
	}
	return func() {
		_, err := conn.Exec(ctx, `drop table filler`)
		must(t, err)
	}
}

// hogConnections uses all connections of the server, and ends the exporters' connections.
func hogConnections(t *testing.T, url string) (release func()) {
	t.Helper()
	ctx, admin := context.Background(), servers.Connect(t, url)
	var hogs []*pgx.Conn
	Await(t, "the connections to be taken", func() (bool, error) {
		for {
			hog, err := pgx.Connect(ctx, url)
			if err != nil {
				break
			}
			hogs = append(hogs, hog)
		}
		var left int
		err := admin.QueryRow(ctx, `select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'kubecdc'`).Scan(&left)
		return left == 0, err
	})
	return func() {
		for _, hog := range hogs {
			_ = hog.Close(ctx)
		}
	}
}

// readOnly makes a server read-only, like a standby after a failover.
func readOnly(t *testing.T, url, value string) {
	t.Helper()
	conn := servers.Connect(t, url)
	for _, sql := range []string{`set default_transaction_read_only = off`, `alter system set default_transaction_read_only = ` + value, `select pg_reload_conf()`} {
		_, err := conn.Exec(context.Background(), sql)
		must(t, err)
	}
}
