package main

import (
	"context"
)

// servers starts everything but the exporter, and fills the cluster.
func (t *tour) servers(ctx context.Context) (err error) {
	t.screen.chapter("The servers")
	if t.stack, err = installStack(ctx, t.screen); err != nil {
		return err
	}
	if err := t.stack.start(ctx, t.fill); err != nil {
		return err
	}
	if t.consumer, err = newConsumer(t.stack.brokers); err != nil {
		return err
	}
	go t.consumer.run(ctx)
	return nil
}

// fill creates what exists before the exporter first runs.
func (t *tour) fill(ctx context.Context) (err error) {
	if t.cluster, err = newCluster(t.stack.kube.Config); err != nil {
		return err
	}
	space := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}
	if err := t.cluster.createShared(ctx, namespaces, space); err != nil {
		return err
	}
	return t.cluster.run(ctx, t.cluster.seed())
}
