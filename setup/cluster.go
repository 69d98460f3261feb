// Package setup makes the parts of an exporter from its settings. These are the cluster, the checkpoint with its leases, the
// sink, the reader of a log, and the configuration of package export. It has the table of sinks. It does not know what commands
// do with these parts.
package setup

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/kubeapi"
	"kubecdc/source/discovery"
)

// Cluster is the cluster to export: its connection, its name and its identity.
type Cluster struct {
	*config.Connection
	Server   *discovery.Server // set once it is identified
	Identity change.ClusterIdentity
	Binding  checkpoint.Binding // set once the checkpoint is bound
}

// NewCluster returns a cluster that is neither identified nor bound yet.
func NewCluster(c *config.Connection) *Cluster {
	kubeapi.NameProxies(c.REST)
	kubeapi.RenewAuthorities(c.REST)
	return &Cluster{Connection: c}
}

// Before says what happens before the API server answers, and may take for ever: client-go runs the kubeconfig's credential
// plugin without a limit.
func (t *Cluster) Before() string {
	if plugin := t.REST.ExecProvider; plugin != nil {
		return "the kubeconfig's credential plugin " + plugin.Command + " comes before it"
	}
	return ""
}

// These limit one attempt. Opening a checkpoint may have to wait for another process that creates its tables.
const (
	RequestLimit = 20 * time.Second
	OpenLimit    = 30 * time.Second
)

// Identify reads the cluster's identity from the API server, and derives the name from it if nothing else sets one. The name is
// needed before anything is opened, because it is part of the checkpoint and of the log.
func (t *Cluster) Identify(ctx context.Context, start *dependency.Steps) (err error) {
	if t.Server, err = discovery.Connect(t.REST); err != nil {
		return err
	}
	var id change.ClusterIdentity
	step := dependency.Step{Awaited: "the API server to say which cluster it is", Dependency: dependency.APIServer,
		Address: t.Server.Host(),
		Limit:   RequestLimit, Before: t.Before()}
	err = start.Do(ctx, step, func(ctx context.Context) (err error) {
		id, err = t.Server.Identify(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.Identity = id
	if t.Cluster == "" {
		t.Cluster, err = defaultName(t.Identity)
	}
	return err
}

// defaultName derives a name only from the uid, which never changes: another name would begin another log.
func defaultName(id change.ClusterIdentity) (string, error) {
	if id.UID == "" {
		return "", &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_CLUSTER",
			What: "not set, and the default can't be derived from the uid of namespace kube-system: " + id.Hidden,
			Fix:  "set it to a name that no other cluster has, or grant get on namespace kube-system"}}}
	}
	hex := strings.ReplaceAll(id.UID, "-", "")
	return "k8s-" + hex[:min(8, len(hex))], nil
}

// Bind verifies that the checkpoint belongs to this cluster, or binds a new checkpoint to it. It fails with
// *checkpoint.OtherClusterError if the checkpoint belongs to another cluster.
func (t *Cluster) Bind(ctx context.Context, start *dependency.Steps, store checkpoint.Pins, where string,
	log *slog.Logger) error {
	var b checkpoint.Binding
	step := dependency.Step{Awaited: "the checkpoint to say which cluster it is of", Dependency: dependency.Checkpoint,
		Address: where, Limit: RequestLimit}
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		b, err = store.Bind(ctx, t.Cluster, t.Identity)
		return err
	})
	if err != nil {
		return err
	}
	t.Binding = b
	switch {
	case t.Binding.UIDHidden():
		log.Warn("the right to read namespace kube-system was lost: the cluster is known again by its CA alone, and a new CA "+
			"would make it another one; grant get on namespace kube-system again", "uid", t.Binding.Known.UID, "answer",
			t.Identity.Hidden)
	case t.Identity.UID == "":
		log.Warn("the cluster is known by its CA alone, since namespace kube-system can't be read; a new CA would make it "+
			"another "+
			"one; grant get on namespace kube-system", "answer", t.Identity.Hidden)
	}
	return nil
}
