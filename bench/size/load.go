package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

const nodes = 100

// load writes as the parts of a cluster do.
type load struct {
	api   rest.Interface
	last  atomic.Int64  // the highest resourceVersion that was written
	pause time.Duration // after each write
}

type phase struct {
	name, resource string
	write          func(context.Context) error
}

func (l *load) phases() []phase {
	const leases, events = "leases.coordination.k8s.io", "events"
	return []phase{
		{leases, leases, func(ctx context.Context) error {
			return each(ctx, nodes, func(i int) error { return l.renew(ctx, i, 300) })
		}},
		{"nodes", "nodes", func(ctx context.Context) error {
			return each(ctx, nodes, func(i int) error { return l.beat(ctx, i, 100) })
		}},
		{"pods", "pods", func(ctx context.Context) error { return each(ctx, 500, func(i int) error { return l.live(ctx, i) }) }},
		{"deployments.apps", "deployments.apps", func(ctx context.Context) error {
			return each(ctx, nodes, func(i int) error { return l.roll(ctx, "deployments", i, 3) })
		}},
		{"replicasets.apps", "replicasets.apps", func(ctx context.Context) error {
			return each(ctx, nodes, func(i int) error { return l.roll(ctx, "replicasets", i, 3) })
		}},
		{events, events, func(ctx context.Context) error { return each(ctx, 2000, func(i int) error { return l.event(ctx, i) }) }},
		{"leases, 10 a second", leases, func(ctx context.Context) error { return l.slowly(ctx, time.Minute) }},
	}
}

// each calls do with each number, at most 16 at a time.
func each(ctx context.Context, n int, do func(int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

const strategic = "application/strategic-merge-patch+json"

// send makes a request as a field manager, and records the version of the answer.
func (l *load) send(ctx context.Context, verb, path, manager, body string) error {
	request := l.api.Verb(verb).AbsPath(path).Body([]byte(body)).SetHeader("Content-Type", "application/json").Param("fieldManager", manager)
	if verb == "PATCH" {
		request.SetHeader("Content-Type", strategic)
	}
	answer, err := request.DoRaw(ctx)
	time.Sleep(l.pause)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", verb, path, err, answer)
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return err
	}
	version, _ := strconv.ParseInt(object.Metadata.ResourceVersion, 10, 64) // a deletion and a binding have none
	for last := l.last.Load(); version > last && !l.last.CompareAndSwap(last, version); last = l.last.Load() {
	}
	return nil
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

const (
	nodesPath  = "/api/v1/nodes"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	podsPath   = "/api/v1/namespaces/default/pods"
	eventsPath = "/api/v1/namespaces/default/events"
)

func (l *load) makeNodes(ctx context.Context) error {
	if err := l.send(ctx, "POST", "/api/v1/namespaces", "kubectl", `{"metadata":{"name":"kube-node-lease"}}`); err != nil &&
		!strings.Contains(err.Error(), "already exists") {
		return err
	}
	return each(ctx, nodes, func(i int) error { return l.makeNode(ctx, i) })
}

// makeNode makes a node and its lease.
func (l *load) makeNode(ctx context.Context, i int) error {
	return l.all(ctx, [][4]string{{"POST", nodesPath, "kubelet", render(node, i, "")},
		{"PATCH", fmt.Sprintf("%s/node-%d/status", nodesPath, i), "kubelet", render(nodeStatus, i, "")},
		{"POST", leasesPath, "kubelet", render(lease, i, "")}})
}

func (l *load) renew(ctx context.Context, i, times int) (err error) {
	for n := 0; n < times && err == nil; n++ {
		err = l.send(ctx, "PATCH", fmt.Sprintf("%s/node-%d", leasesPath, i), "kubelet", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now()))
	}
	return err
}

// slowly renews the leases one after another, ten a second.
func (l *load) slowly(ctx context.Context, during time.Duration) (err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < int(during.Seconds()*10) && err == nil && ctx.Err() == nil; i++ {
		<-tick.C
		err = l.renew(ctx, i%nodes, 1)
	}
	return err
}

// beat sets the times of a node's heartbeat.
func (l *load) beat(ctx context.Context, i, times int) (err error) {
	moment := time.Now().Truncate(time.Second)
	for n := 0; n < times && err == nil; n++ {
		moment = moment.Add(5 * time.Minute)
		err = l.send(ctx, "PATCH", fmt.Sprintf("%s/node-%d/status", nodesPath, i), "kubelet", render(heartbeat, i, moment.UTC().Format(time.RFC3339)))
	}
	return err
}

// live is the life of a pod: created, bound, started, ready, asked to end, and gone.
func (l *load) live(ctx context.Context, i int) error {
	path, moment := fmt.Sprintf("%s/web-%d", podsPath, i), time.Now().UTC().Format(time.RFC3339)
	steps := [][4]string{
		{"POST", podsPath, "kube-controller-manager", render(pod, i, moment)},
		{"POST", path + "/binding", "kube-scheduler", fmt.Sprintf(`{"metadata":{"name":"web-%d"},"target":{"kind":"Node","name":"node-%d"}}`, i, i%nodes)},
		{"PATCH", path + "/status", "kubelet", render(podCreating, i, moment)},
		{"PATCH", path + "/status", "kubelet", render(podRunning, i, moment)},
		{"PATCH", path + "/status", "kubelet", render(podReady, i, moment)},
		{"DELETE", path, "", `{"gracePeriodSeconds":30}`},
		{"PATCH", path + "/status", "kubelet", render(podEnded, i, moment)},
		{"DELETE", path, "", `{"gracePeriodSeconds":0}`},
	}
	err := l.all(ctx, steps)
	if apierrors.IsNotFound(err) { // a deletion that was answered late is sent again
		return nil
	}
	return err
}

func (l *load) all(ctx context.Context, steps [][4]string) error {
	for _, s := range steps {
		if err := l.send(ctx, s[0], s[1], s[2], s[3]); err != nil {
			return err
		}
	}
	return nil
}

// roll makes a Deployment or a ReplicaSet. Then it changes its spec and, five times, its status, as a rollout does, n times over.
func (l *load) roll(ctx context.Context, kind string, i, times int) error {
	collection := "/apis/apps/v1/namespaces/default/" + kind
	path := fmt.Sprintf("%s/app-%d", collection, i)
	steps := [][4]string{{"POST", collection, "kubectl", render(workload, i, "")}}
	for n := range times {
		change := fmt.Sprintf(`{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"%d"}},"spec":{"replicas":%d}}`, n+1, 10+n)
		if kind == "deployments" {
			image := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"registry.example.com/app:v%d"}]}}}}`, n)
			steps = append(steps, [4]string{"PATCH", path, "kubectl", image})
		}
		steps = append(steps, [4]string{"PATCH", path, "kube-controller-manager", change})
		for ready := range 5 {
			status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"readyReplicas":%d,"availableReplicas":%[3]d}}`, n+1, 10+ready, 6+ready)
			steps = append(steps, [4]string{"PATCH", path + "/status", "kube-controller-manager", status})
		}
	}
	return l.all(ctx, steps)
}

// event is written, and removed as the API server does after an hour.
func (l *load) event(ctx context.Context, i int) error {
	return l.all(ctx, [][4]string{{"POST", eventsPath, "kubelet", render(event, i, time.Now().UTC().Format(time.RFC3339))},
		{"DELETE", fmt.Sprintf("%s/web-%d.17c5b0b5", eventsPath, i), "", "{}"}})
}
