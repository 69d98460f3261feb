package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
)

// KubernetesOptions are all optional.
type KubernetesOptions struct {
	// CompactionInterval is how often etcd's history is cut: what is older than one interval is gone after the next. 0 is the
	// server's default of 5 minutes, negative is never.
	CompactionInterval time.Duration
	APIServerFlags     []string // e.g. --feature-gates=…; the last one wins
	// OwnEtcd are resources that are stored in a second etcd, which has revisions of its own: as group/resource, such as "/events" or
	// "apps/deployments".
	OwnEtcd []string
	// Kine is the binary of kine (test/kine), in etcd's place, and KineEndpoint the database below it: postgres://…, or
	// sqlite://PATH. EtcdHistory is then not to be had.
	Kine, KineEndpoint string
	Users              []User // besides the admin and Reader
	// SameAccess is a cluster whose certificates and tokens this one has too, as one that takes over its address.
	SameAccess *Kubernetes
	Audit      *AuditOptions
}

// User is someone that the API server knows by a bearer token. RBAC decides what they may do: nothing, at first, unless a group
// says otherwise.
type User struct {
	Name   string
	Token  string
	Groups []string // e.g. system:masters
}

// Reader is a user of every cluster, who may do nothing at first.
var Reader = User{Name: "reader", Token: "reader-token"}

// Kubernetes is a real control plane without controllers: etcd and one kube-apiserver, or several. Nothing collects garbage,
// finishes the deletion of a namespace, or runs a pod.
type Kubernetes struct {
	API          *APIServer   // the first API server
	Address      string       // its 127.0.0.1:port, a Proxy's target
	Kubeconfig   string       // path of a file whose current context is an admin
	Config       *rest.Config // the same admin, without a client-side rate limit
	EtcdEndpoint string       // http://127.0.0.1:port
	Dir          string       // folder of this instance: data, logs, certificates

	opts     KubernetesOptions
	binary   string
	instance *instance
	files    kubeFiles
	admin    User
	etcd     *etcd
	second   *etcd // etcd of opts.OwnEtcd, or nil
	more     []*APIServer
	new      pristine // state of a new cluster, which tests have one after another
	altered  bool     // it was set back to a snapshot
}

type kubeFiles struct{ ca, serverCert, serverKey, accountKey, tokens string }

// StartKubernetes starts etcd and a kube-apiserver on free loopback ports, which they keep over restarts. It is ready when it
// returns.
func StartKubernetes(ctx context.Context, opts KubernetesOptions) (*Kubernetes, error) {
	k, err := newKubernetes(opts)
	if err != nil {
		return nil, err
	}
	return k, launch(ctx, k, k.instance, k.start)
}

func newKubernetes(opts KubernetesOptions) (*Kubernetes, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	binary, err := kubeBinary(dir)
	if err != nil {
		return nil, err
	}
	i, err := newInstance(dir, "kube")
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{Dir: i.dir, opts: opts, binary: binary, instance: i}
	k.admin = User{Name: "kubecdc-admin", Token: rand.Text(), Groups: []string{"system:masters"}}
	if err := k.writeFiles(); err != nil {
		return nil, err
	}
	if opts.Audit != nil {
		flags, err := opts.Audit.flags(i)
		if err != nil {
			return nil, err
		}
		k.opts.APIServerFlags = append(flags, opts.APIServerFlags...)
	}
	if k.etcd, err = k.newEtcd("etcd"); err != nil {
		return nil, err
	}
	k.EtcdEndpoint = k.etcd.endpoint
	if len(opts.OwnEtcd) > 0 {
		k.second, err = k.newEtcd("etcd-2")
	}
	return k, err
}

func (k *Kubernetes) newEtcd(name string) (*etcd, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	return &etcd{
		kine:     k.opts.Kine,
		database: k.opts.KineEndpoint,
		binary:   k.binary,
		dir:      k.instance.path(name),
		log:      k.instance.path(name + ".log"),
		endpoint: "http://" + loopback(ports[0]),
		peer:     "http://" + loopback(ports[1]),
	}, nil
}

func (k *Kubernetes) writeFiles() error {
	if same := k.opts.SameAccess; same != nil {
		k.files, k.admin = same.files, same.admin
		return nil
	}
	ca, err := newAuthority(k.Dir)
	if err != nil {
		return err
	}
	k.files.ca = ca.certFile()
	if k.files.serverCert, k.files.serverKey, err = ca.issue("kube-apiserver"); err != nil {
		return err
	}
	k.files.accountKey = k.instance.path("service-account.key")
	if err := writeAccountKey(k.files.accountKey); err != nil {
		return err
	}
	k.files.tokens = k.instance.path("tokens.csv")
	return os.WriteFile(k.files.tokens, []byte(tokenFile(append(k.opts.Users, k.admin, Reader))), 0o600)
}

// tokenFile has the format of --token-auth-file: token,user,uid,"groups".
func tokenFile(users []User) string {
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", u.Token, u.Name, u.Name, strings.Join(u.Groups, ","))
	}
	return b.String()
}

func (k *Kubernetes) start(ctx context.Context) (err error) {
	if err := k.startEtcds(ctx); err != nil {
		return err
	}
	first, err := k.newAPIServer("kube-apiserver")
	if err != nil {
		return err
	}
	k.API, k.Address, k.Kubeconfig, k.Config = first, first.Address, first.Kubeconfig, first.Config
	return first.Start(ctx)
}

func (k *Kubernetes) etcds() []*etcd {
	if k.second == nil {
		return []*etcd{k.etcd}
	}
	return []*etcd{k.etcd, k.second}
}

// startEtcds also has a recorder retain what the API servers' compaction will remove from etcd.
func (k *Kubernetes) startEtcds(ctx context.Context) error {
	for _, e := range k.etcds() {
		if err := e.start(ctx); err != nil {
			return err
		}
		if e.record.stop(); k.opts.CompactionInterval > 0 {
			e.record = newRecorder(e.client, 1, false)
		}
	}
	return nil
}

// keeper is the etcd that keeps what lies under the key prefix.
func (k *Kubernetes) keeper(prefix string) *etcd {
	for _, resource := range k.opts.OwnEtcd {
		_, name, _ := strings.Cut(resource, "/")
		if strings.HasPrefix(prefix, "/registry/"+name+"/") {
			return k.second
		}
	}
	return k.etcd
}

func (k *Kubernetes) newAPIServer(name string) (*APIServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &APIServer{kube: k, name: name, Address: loopback(port)}
	a.URL = "https://" + a.Address
	a.Config = k.ConfigAt(a.Address)
	a.Kubeconfig = k.instance.path(name + ".kubeconfig")
	return a, writeKubeconfig(a.Kubeconfig, a.Config)
}

// AddAPIServer starts another kube-apiserver on the same etcd, with more flags than the first. It stops with the rest.
func (k *Kubernetes) AddAPIServer(ctx context.Context, flags ...string) (*APIServer, error) {
	ctx, cancel := Patient(ctx)
	defer cancel()
	a, err := k.newAPIServer(fmt.Sprintf("kube-apiserver-%d", len(k.more)+2))
	if err != nil {
		return nil, err
	}
	a.flags = flags
	k.more = append(k.more, a)
	return a, a.Start(ctx)
}

// RestartAPIServer ends the first API server by SIGTERM and starts it again. It comes back with an empty watch cache: watches
// that resume from before get 410.
func (k *Kubernetes) RestartAPIServer(ctx context.Context) error { return k.API.Restart(ctx) }

// KillAPIServer is kill -9 of the first API server.
func (k *Kubernetes) KillAPIServer() { k.API.Kill() }

// StartAPIServer starts the first API server after a kill or stop.
func (k *Kubernetes) StartAPIServer(ctx context.Context) error { return k.API.Start(ctx) }

// Etcd is a client of the etcd below, shared and closed by Stop. It reconnects over restarts.
func (k *Kubernetes) Etcd() *clientv3.Client { return k.etcd.client }

// Revision is etcd's current one: no resourceVersion is newer.
func (k *Kubernetes) Revision(ctx context.Context) (int64, error) {
	return revision(ctx, k.etcd.client)
}

// RevisionOf is the current one of the etcd that keeps a key prefix, e.g. /registry/events/.
func (k *Kubernetes) RevisionOf(ctx context.Context, prefix string) (int64, error) {
	return revision(ctx, k.keeper(prefix).client)
}

// Compact cuts etcd's history below rev, or below the current revision if rev is 0, as an API server's own compactor would.
// Watches that are behind get 410 when they must go to etcd. Exact reads may be answered from an API server's cache for up to 15
// s more (its compactorPollPeriod), unless that server restarts.
func (k *Kubernetes) Compact(ctx context.Context, rev int64) error {
	if rev == 0 {
		now, err := revision(ctx, k.etcd.client)
		if err != nil {
			return err
		}
		rev = now
	}
	if err := k.etcd.remember(ctx); err != nil {
		return err
	}
	return compact(ctx, k.etcd.client, rev)
}

// EtcdHistory is every write under a key prefix, e.g. /registry/configmaps/, from a revision up to now, in order. It is all there
// too where an API server compacts etcd (CompactionInterval), though without the values.
func (k *Kubernetes) EtcdHistory(ctx context.Context, prefix string, from int64) ([]EtcdEvent, error) {
	e := k.keeper(prefix)
	record := e.record
	if record == nil {
		record = newRecorder(e.client, max(from, e.since, 1), true)
		defer record.stop()
	}
	return record.history(ctx, e.client, prefix, from)
}

// SnapshotEtcd copies etcd's data and returns the copy's path, for RestoreEtcd. etcd is down for a moment, while the API servers run on.
func (k *Kubernetes) SnapshotEtcd(ctx context.Context) (snapshot string, err error) {
	snapshot, err = os.MkdirTemp(k.Dir, "etcd-snapshot-")
	if err != nil {
		return "", fmt.Errorf("snapshot etcd: %w", err)
	}
	k.etcd.proc.kill()
	if err := k.etcd.snapshot(snapshot); err != nil {
		return "", err
	}
	return snapshot, k.etcd.start(ctx)
}

// RestoreEtcd sets the cluster back to a snapshot, as after a disaster: resourceVersions go back with it and will be given out
// again. All API servers restart.
func (k *Kubernetes) RestoreEtcd(ctx context.Context, snapshot string) error {
	k.altered = true
	k.killAll()
	if err := k.etcd.restore(snapshot); err != nil {
		return err
	}
	return k.startAll(ctx)
}

func (k *Kubernetes) servers() []*APIServer {
	if k.API == nil {
		return nil
	}
	return append([]*APIServer{k.API}, k.more...)
}

func (k *Kubernetes) startAll(ctx context.Context) error {
	if err := k.startEtcds(ctx); err != nil {
		return err
	}
	for _, a := range k.servers() {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killAll kills the API servers, then etcd.
func (k *Kubernetes) killAll() {
	for _, a := range k.servers() {
		a.Kill()
	}
	for _, e := range k.etcds() {
		e.proc.kill()
	}
}

// Stop ends all of it, at once, and removes its folder.
func (k *Kubernetes) Stop() error {
	if !unregister(k) {
		return nil
	}
	for _, e := range k.etcds() {
		e.record.stop()
		if e.client != nil {
			e.client.Close()
		}
	}
	k.killAll()
	return k.instance.close()
}

// ConfigAt is the admin's access by another address, e.g. a Proxy's.
func (k *Kubernetes) ConfigAt(address string) *rest.Config {
	return k.UserConfig(address, k.admin.Token)
}

// UserConfig is the access of the bearer of a token, by an address.
func (k *Kubernetes) UserConfig(address, token string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: k.files.ca},
		QPS:             -1,
	}
}
