package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// pool has the servers of one kind that tests have one after another: a start of one takes as much processor time as most tests.
type pool[S server] struct {
	mu   sync.Mutex
	free []S
}

type server interface {
	Stop() error
	processes() []*process
	wake(context.Context) error // from how it is while nobody has it
}

var (
	lentClusters  pool[*Kubernetes]
	lentBrokers   pool[*Kafka]
	lentDatabases pool[*Postgres]
)

// lend gives a server that is free, or a new one, to a test. If the test passes, and the server can be made as it was, the next test gets it.
func (p *pool[S]) lend(t testing.TB, name string, start func(context.Context) (S, error), restore func(S, context.Context) error) S {
	t.Helper()
	Need(t)
	s, found := p.take()
	if found && s.wake(context.Background()) != nil {
		_ = s.Stop()
		found = false
	}
	if !found {
		var err error
		if s, err = start(context.Background()); err != nil {
			t.Fatalf("this test needs a real %s server: %v\nto install what is missing: %s", name, err, howToInstall)
		}
	}
	t.Cleanup(func() {
		report(t, s.processes())
		if t.Failed() || restore(s, context.Background()) != nil {
			_ = s.Stop()
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, s)
	})
	return s
}

// report says of a test that has failed in what state it leaves a server.
func report(t testing.TB, processes []*process) {
	if !t.Failed() {
		return
	}
	for _, p := range processes {
		if p != nil {
			t.Logf("%s, running: %v, ends its log with\n%s", p.name, p.running(), lastLines(p.output(), 5))
		}
	}
}

func (p *pool[S]) take() (s S, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		s, p.free = p.free[n-1], p.free[:n-1]
		return s, true
	}
	return s, false
}

// OwnPostgres gives a database server to one test alone, which may kill, suspend and cut it off. Without options the next test gets it then,
// with an empty database.
func OwnPostgres(t testing.TB, opts PostgresOptions) *Postgres {
	t.Helper()
	start := func(ctx context.Context) (*Postgres, error) { return StartPostgres(ctx, opts) }
	if opts.Settings != nil || opts.TLS || opts.Fsync {
		return new(pool[*Postgres]).lend(t, "Postgres", start, func(*Postgres, context.Context) error { return errChanged })
	}
	return lentDatabases.lend(t, "Postgres", start, (*Postgres).empty)
}

func (p *Postgres) processes() []*process { return []*process{p.proc} }

func (p *Postgres) wake(context.Context) error { return nil }

// empty has the server run with an empty database, and without the roles and settings of a test.
func (p *Postgres) empty(ctx context.Context) error {
	if !p.proc.running() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, p.URLAt(p.Address, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `select format('drop database %I with (force)', datname) from pg_database where not datistemplate and datname <> 'postgres'
		union all select format('drop role %I', rolname) from pg_roles where oid >= 16384
		union all select 'drop replication slot ' || slot_name from pg_replication_slots`)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	slices.Sort(statements) // databases first, and no statement drops a replication slot
	for _, statement := range slices.Concat(statements, []string{"alter role " + postgresUser + " reset all", "alter system reset all", "select pg_reload_conf()"}) {
		if err == nil {
			_, err = conn.Exec(ctx, statement)
		}
	}
	if err != nil {
		return err
	}
	return createDatabase(ctx, conn, postgresDatabase)
}

// LendKafka gives a broker to one test alone, which may kill, suspend and cut it off. Other tests' topics may be in it.
func LendKafka(t testing.TB) *Kafka {
	t.Helper()
	return lentBrokers.lend(t, "Kafka", func(ctx context.Context) (*Kafka, error) {
		return StartKafka(ctx, KafkaOptions{Properties: Impatient})
	}, (*Kafka).restore)
}

func (k *Kafka) wake(context.Context) error { return nil }

// wake undoes sleep.
func (k *Kubernetes) wake(ctx context.Context) error {
	if err := k.signal(syscall.SIGCONT); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(k.Config)
	if err != nil {
		return err
	}
	return Until(ctx, "the API server to be awake", func() (bool, error) { return k.API.ready(ctx, client) == nil, nil })
}

// sleep suspends the servers: one that nobody uses takes a twentieth of a processor.
func (k *Kubernetes) sleep() error { return k.signal(syscall.SIGSTOP) }

// signal sends a signal to the store first, then to the API server.
func (k *Kubernetes) signal(s syscall.Signal) error {
	return errors.Join(k.etcd.proc.cmd.Process.Signal(s), k.API.proc.cmd.Process.Signal(s))
}

func (k *Kafka) processes() []*process { return []*process{k.proc} }

func (k *Kubernetes) processes() (all []*process) {
	for _, a := range k.servers() {
		all = append(all, a.proc)
	}
	for _, e := range k.etcds() {
		all = append(all, e.proc)
	}
	return all
}

// restore has the broker run, and its lanes lead to it.
func (k *Kafka) restore(ctx context.Context) error {
	for _, l := range k.lanes {
		l.Retarget(l.behind)
		if err := l.Restore(); err != nil {
			return err
		}
	}
	if k.proc.running() {
		return k.Resume()
	}
	return k.Start(ctx)
}

// pristine is what a new cluster holds before a test has written anything.
type pristine struct {
	values map[string][]byte // by key in etcd
	groups []string          // what the API server serves, as group/version
}

// Lend gives a cluster to one test alone, which may restart, cut off and compact it. Nothing else compacts it: its history lasts
// for as long as the test, however slow the machine is. When the test has passed, the next one gets the cluster, without what was written.
func Lend(t testing.TB) *Kubernetes {
	t.Helper()
	return lentClusters.lend(t, "Kubernetes", newPristine, (*Kubernetes).clear)
}

func newPristine(ctx context.Context) (*Kubernetes, error) {
	k, err := StartKubernetes(ctx, KubernetesOptions{CompactionInterval: time.Hour})
	if err != nil {
		return nil, err
	}
	k.etcd.forget(1)
	err = Until(ctx, "the API server to have made all that it makes by itself", func() (made bool, err error) {
		k.new, err = k.contents(ctx)
		made = !slices.ContainsFunc([]string{"namespaces/kube-node-lease", "namespaces/kube-public", "services/specs/default/kubernetes",
			"configmaps/kube-system/extension-apiserver-authentication"}, func(key string) bool { return k.new.values["/registry/"+key] == nil })
		return made, err
	})
	if err != nil {
		return nil, errors.Join(err, k.Stop())
	}
	return k, nil
}

func (k *Kubernetes) contents(ctx context.Context) (p pristine, err error) {
	found, err := k.etcd.client.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		return p, fmt.Errorf("read etcd: %w", err)
	}
	p.values = make(map[string][]byte, len(found.Kvs))
	for _, kv := range found.Kvs {
		p.values[string(kv.Key)] = kv.Value
	}
	p.groups, err = k.groups(ctx)
	return p, err
}

// groups are those that the API server serves.
func (k *Kubernetes) groups(ctx context.Context) (names []string, err error) {
	client, err := rest.HTTPClientFor(k.Config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.API.URL+"/apis", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var list metav1.APIGroupList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", request.URL, err)
	}
	for _, group := range list.Groups {
		for _, version := range group.Versions {
			names = append(names, version.GroupVersion)
		}
	}
	slices.Sort(names)
	return names, nil
}

// errChanged is a cluster that is no longer as it was started.
var errChanged = errors.New("the cluster is not what it was: it was stopped, set back, or has more API servers")

// clear takes everything out of etcd that is not the API server's own, and waits until it serves no more than at its start.
func (k *Kubernetes) clear(ctx context.Context) error {
	if k.altered || len(k.more) > 0 || !k.etcd.proc.running() {
		return errChanged
	}
	if !k.API.proc.running() {
		if err := k.API.Start(ctx); err != nil {
			return err
		}
	}
	now, err := k.contents(ctx)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for key := range now.values {
		if k.new.values[key] == nil && !ownOfAPIServer(key) {
			ops = append(ops, clientv3.OpDelete(key))
		}
	}
	for key, value := range k.new.values {
		if !bytes.Equal(now.values[key], value) && !ownOfAPIServer(key) {
			ops = append(ops, clientv3.OpPut(key, string(value)))
		}
	}
	for some := range slices.Chunk(ops, 100) { // a transaction takes 128
		if _, err := k.etcd.client.Txn(ctx).Then(some...).Commit(); err != nil {
			return fmt.Errorf("clear etcd: %w", err)
		}
	}
	revision, err := k.Revision(ctx)
	if err != nil {
		return err
	}
	k.etcd.forget(revision + 1)
	err = Until(ctx, "the API server to serve what it served at its start", func() (bool, error) {
		groups, err := k.groups(ctx)
		return slices.Equal(groups, k.new.groups), err
	})
	return errors.Join(err, k.sleep())
}

// ownOfAPIServer reports what an API server writes again and again, of itself.
func ownOfAPIServer(key string) bool {
	return strings.HasPrefix(key, "/registry/leases/kube-system/") || strings.HasPrefix(key, "/registry/masterleases/")
}
