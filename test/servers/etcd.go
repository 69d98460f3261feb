package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcd is the store below an API server: one member, on the loopback.
type etcd struct {
	binary   string
	dir      string // data
	log      string
	endpoint string
	peer     string
	kine     string // binary of kine, which runs in etcd's place; empty: etcd
	database string // below kine
	proc     *process
	client   *clientv3.Client
	record   *recorder // nil while etcd itself has its history
	since    int64     // a test's history begins there
}

func (e *etcd) args() []string {
	// A kill of the process loses nothing without fsync, only a crash of the machine does: so --unsafe-no-fsync takes nothing
	// away from a test.
	return []string{"etcd",
		"--name=kubecdc",
		"--data-dir=" + e.dir,
		"--listen-client-urls=" + e.endpoint,
		"--advertise-client-urls=" + e.endpoint,
		"--listen-peer-urls=" + e.peer,
		"--initial-advertise-peer-urls=" + e.peer,
		"--initial-cluster=kubecdc=" + e.peer,
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func (e *etcd) start(ctx context.Context) (err error) {
	if e.client == nil { // it reconnects over restarts
		if e.client, err = newEtcdClient(e.endpoint); err != nil {
			return err
		}
	}
	if e.kine != "" {
		return e.startKine(ctx)
	}
	e.proc, err = startProcess(command{name: "etcd", path: e.binary, args: e.args(), env: []string{seldomCollect}, log: e.log})
	if err != nil {
		return err
	}
	return e.proc.awaitReady(ctx, func(ctx context.Context) error {
		return probeURL(ctx, http.DefaultClient, e.endpoint+"/health")
	})
}

// startKine starts kine, and waits until it takes connections: the API server waits for the rest.
func (e *etcd) startKine(ctx context.Context) (err error) {
	address := strings.TrimPrefix(e.endpoint, "http://")
	e.proc, err = startProcess(command{name: "kine", path: e.kine, log: e.log,
		args: []string{"--listen-address=tcp://" + address, "--endpoint=" + e.database, "--metrics-bind-address=0"}})
	if err != nil {
		return err
	}
	return e.proc.awaitReady(ctx, func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// forget drops what was recorded. Etcd itself has the history from a revision on, until it is compacted.
func (e *etcd) forget(since int64) {
	e.record.stop()
	e.record, e.since = nil, since
}

// remember records the history that a compaction is about to take.
func (e *etcd) remember(ctx context.Context) error {
	if e.record != nil || e.since == 0 {
		return nil
	}
	e.record = newRecorder(e.client, e.since, false)
	_, err := e.record.history(ctx, e.client, "", 0)
	return err
}

// snapshot copies the data, while etcd is stopped.
func (e *etcd) snapshot(to string) error {
	return os.CopyFS(to, os.DirFS(e.dir))
}

// restore puts a snapshot in place of the data, while etcd is stopped.
func (e *etcd) restore(from string) error {
	return errors.Join(os.RemoveAll(e.dir), os.CopyFS(e.dir, os.DirFS(from)), os.Chmod(e.dir, 0o700))
}

func newEtcdClient(endpoint string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", endpoint, err)
	}
	return c, nil
}

// compactRevKey is where API servers tell each other what is compacted: they watch it to drop what their watch caches hold of it
// (k8s.io/apiserver, pkg/storage/etcd3/compact.go).
const compactRevKey = "compact_rev_key"

// compact does what an API server's own compactor does. It is no error that more is compacted already.
func compact(ctx context.Context, c *clientv3.Client, rev int64) error {
	if _, err := c.Put(ctx, compactRevKey, strconv.FormatInt(rev, 10)); err != nil {
		return fmt.Errorf("announce the compaction to revision %d: %w", rev, err)
	}
	if _, err := c.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd to revision %d: %w", rev, err)
	}
	return nil
}

// EtcdEvent is one write, as etcd itself tells it: what a log of changes is to be measured against.
type EtcdEvent struct {
	Op       string // c, u or d
	Key      string // e.g. /registry/configmaps/default/name
	Revision int64  // the resourceVersion of the change
	Value    []byte // nil for d, protobuf for most built-in resources, JSON for custom ones
}

func etcdEvent(ev *clientv3.Event) EtcdEvent {
	out := EtcdEvent{Op: "u", Key: string(ev.Kv.Key), Revision: ev.Kv.ModRevision, Value: ev.Kv.Value}
	switch {
	case ev.Type == clientv3.EventTypeDelete:
		out.Op = "d"
	case ev.IsCreate():
		out.Op = "c"
	}
	return out
}

func revision(ctx context.Context, c *clientv3.Client) (int64, error) {
	resp, err := c.Get(ctx, compactRevKey)
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return resp.Header.Revision, nil
}

func probeURL(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}
