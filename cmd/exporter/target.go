package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export/dependency"
	"kubecdc/internal/kubeapi"
	"kubecdc/internal/startup"
	"kubecdc/source/discovery"
)

// target is the cluster to export: its connection, its name and its identity.
type target struct {
	*config.Connection
	reach    *reach // how far a request has come
	server   *discovery.Server
	identity change.ClusterIdentity
	binding  checkpoint.Binding // once the checkpoint is bound
}

func newTarget(c *config.Connection) *target {
	kubeapi.NameProxies(c.REST)
	return &target{Connection: c, reach: newReach(c.REST)}
}

// Limits of one attempt. Opening a checkpoint may have to wait for another process that creates its tables.
const (
	requestLimit = 20 * time.Second
	openLimit    = 30 * time.Second
)

// identify reads the cluster's identity from the API server, and derives the name from it if nothing else gives one. The
// name is needed before anything is opened: it is part of the checkpoint and of the log.
func (t *target) identify(ctx context.Context, start *startup.Steps) (err error) {
	if t.server, err = discovery.Connect(t.REST); err != nil {
		return err
	}
	var id change.ClusterIdentity
	step := startup.Step{For: "the API server to say which cluster it is", On: dependency.APIServer, At: t.server.Host(),
		Limit: requestLimit, Progress: t.reach.progress}
	err = start.Do(ctx, step, func(ctx context.Context) (err error) {
		id, err = t.server.Identify(t.reach.trace(ctx))
		return err
	})
	if err != nil {
		return err
	}
	t.identity = id
	if t.Cluster == "" {
		t.Cluster, err = defaultName(t.identity)
	}
	return err
}

// defaultName derives a name from the uid alone, which never changes: another name would begin another log.
func defaultName(id change.ClusterIdentity) (string, error) {
	if id.UID == "" {
		return "", &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_CLUSTER",
			What: "not set, and the default can't be derived from the uid of namespace kube-system: " + id.Hidden,
			Fix:  "set it to a name that no other cluster has, or grant get on namespace kube-system"}}}
	}
	hex := strings.ReplaceAll(id.UID, "-", "")
	return "k8s-" + hex[:min(8, len(hex))], nil
}

// bind checks that the checkpoint belongs to this cluster, and makes a new one belong to it.
func (t *target) bind(ctx context.Context, start *startup.Steps, store checkpoint.Pins, where string, log *slog.Logger) error {
	var b checkpoint.Binding
	step := startup.Step{For: "the checkpoint to say which cluster it is of", On: dependency.Checkpoint, At: where, Limit: requestLimit}
	err := start.Do(ctx, step, func(ctx context.Context) (err error) {
		b, err = store.Bind(ctx, t.Cluster, t.identity)
		return err
	})
	if err != nil {
		return err
	}
	t.binding = b
	switch {
	case t.binding.UIDHidden():
		log.Warn("the right to read namespace kube-system was lost: the cluster is known again by its CA alone, and a new CA "+
			"would make it another one; grant get on namespace kube-system again", "uid", t.binding.Known.UID, "answer", t.identity.Hidden)
	case t.identity.UID == "":
		log.Warn("the cluster is known by its CA alone, since namespace kube-system can't be read; a new CA would make it another "+
			"one; grant get on namespace kube-system", "answer", t.identity.Hidden)
	}
	return nil
}
