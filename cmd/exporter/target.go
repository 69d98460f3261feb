package main

import (
	"context"
	"log/slog"
	"strings"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/source/discovery"
)

// target is the cluster that is exported: how to reach it, what it is called, and what tells it from all others.
type target struct {
	*config.Connection
	server   *discovery.Server
	identity change.ClusterIdentity
	binding  checkpoint.Binding // once the checkpoint is bound
}

// identify asks the API server which cluster it is, and takes a name from that where nothing else gives one. The name is
// needed before anything is opened: it is part of the checkpoint and of the log.
func (t *target) identify(ctx context.Context, log *slog.Logger) (err error) {
	if t.server, err = discovery.Connect(t.REST); err != nil {
		return err
	}
	if t.identity, err = t.server.Identify(ctx, log); err != nil {
		return err
	}
	if t.Cluster == "" {
		t.Cluster, err = defaultName(t.identity)
	}
	return err
}

// defaultName is derived from the uid alone: that never changes, and a name that changes begins another log.
func defaultName(id change.ClusterIdentity) (string, error) {
	if id.UID == "" {
		return "", &config.Error{Problems: []config.Problem{{Setting: "KUBECDC_CLUSTER",
			What: "not set, and the default, which is taken from the uid of namespace kube-system, can't be had: " + id.Hidden,
			Fix:  "set it to a name that no other cluster has, or grant get on namespace kube-system"}}}
	}
	hex := strings.ReplaceAll(id.UID, "-", "")
	return "k8s-" + hex[:min(8, len(hex))], nil
}

// bind makes sure that the checkpoint is this cluster's.
func (t *target) bind(ctx context.Context, store checkpoint.Store, log *slog.Logger) error {
	b, err := store.Bind(ctx, t.Cluster, t.identity)
	if err != nil {
		return err
	}
	t.binding = b
	switch {
	case t.binding.Lost():
		log.Warn("the right to read namespace kube-system was lost: the cluster is known again by its CA alone, and a new CA "+
			"would make it another one; grant get on namespace kube-system again", "uid", t.binding.Known.UID, "answer", t.identity.Hidden)
	case t.identity.UID == "":
		log.Warn("the cluster is known by its CA alone, since namespace kube-system can't be read; a new CA would make it another "+
			"one; grant get on namespace kube-system", "answer", t.identity.Hidden)
	}
	return nil
}
