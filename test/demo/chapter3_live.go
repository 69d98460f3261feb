package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// live shows changes as they arrive: of built-in kinds, and of one that is installed while the exporter runs.
func (t *tour) live(ctx context.Context) error {
	t.screen.chapter("Live changes")
	t.screen.say("Each line is a record (c for created, u updated, d deleted) as a read_committed consumer gets it; on the right, how long after its write was begun.")
	c := t.cluster
	err := t.show(ctx, []shown{
		{configmaps, "flags", c.creation(configmaps, "flags", configMapBody(object{"checkout": "off"}))},
		{configmaps, "flags", c.update(configmaps, "flags", data("checkout", "on"))},
		{deployments, "web", c.creation(deployments, "web", deploymentBody("web", 2))},
		{deployments, "web", c.update(deployments, "web", replicas(5))},
		{pods, podName(7), c.update(pods, podName(7), phase("Running"), "status")},
		{configmaps, "flags", c.deletion(configmaps, "flags")},
	})
	if err != nil {
		return err
	}
	if err := t.installCRD(ctx); err != nil {
		return err
	}
	return t.show(ctx, []shown{
		{orders, orderName(1001), c.creation(orders, orderName(1001), orderBody("teapot"))},
		{orders, orderName(1002), c.creation(orders, orderName(1002), orderBody("kettle"))},
		{orders, orderName(1001), c.update(orders, orderName(1001), orderState("paid"))},
		{orders, orderName(1002), c.deletion(orders, orderName(1002))},
	})
}

// installCRD installs a new kind and waits until the exporter has taken it in.
func (t *tour) installCRD(ctx context.Context) error {
	t.screen.say("Now a CRD is installed, %s; the exporter runs on.", orders)
	began := time.Now()
	if err := t.cluster.installOrders(ctx); err != nil {
		return err
	}
	err := t.await(ctx, "the exporter to take it in", func(l *topicLog) bool { return l.snapshotEnd(orders) != nil })
	if err != nil {
		return err
	}
	t.screen.done("%s later it is being exported: *.example.com is among the resources", took(time.Since(began)))
	defer t.screen.wait("the API server, which takes objects of a new kind after two seconds")()
	return t.cluster.awaitWritable(ctx)
}

// shown is a change whose record is shown.
type shown struct {
	kind  kind
	name  string
	write write
}

// show makes changes, one after another, and prints the record of each.
func (t *tour) show(ctx context.Context, changes []shown) error {
	for _, s := range changes {
		began := time.Now()
		after, err := s.write(ctx)
		if err != nil {
			return err
		}
		var found *record
		err = t.await(ctx, fmt.Sprintf("the record of %s/%s", s.kind, s.name), func(l *topicLog) bool {
			found = l.recordOf(s.kind, s.name, after)
			return found != nil
		})
		if err != nil {
			return err
		}
		t.screen.record(found, found.arrived.Sub(began))
	}
	return nil
}

// recordOf returns the record of the change that made this version of the object, or deleted it, or nil until it exists.
func (l *topicLog) recordOf(k kind, name string, after *unstructured.Unstructured) *record {
	if after != nil {
		return l.find(k, name, after.GetResourceVersion())
	}
	all := l.recordsOf(k, name)
	if n := len(all); n > 0 && all[n-1].Op == "d" {
		return all[n-1]
	}
	return nil
}

var opStyles = map[string]string{"c": green, "u": yellow, "d": red, "r": cyan}

// record prints one record in one line.
func (s *screen) record(r *record, age time.Duration) {
	room := max(s.width-59, 20)
	what := fmt.Sprintf("%-*s", room, cut(describe(r), room))
	s.print(fmt.Sprintf("   %s %s %-16s %s %s", s.paint(opStyles[r.Op], r.Op), s.paint(cyan, fmt.Sprintf("%-26s", r.Topic)), r.Key, what,
		s.paint(dim, fmt.Sprintf("%4d ms", age.Milliseconds()))))
}
