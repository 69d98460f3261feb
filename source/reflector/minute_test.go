package reflector_test

import (
	"context"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"kubecdc/change"
	"kubecdc/test/minute"
	"kubecdc/test/servers"
)

// A minute of a large cluster, written straight into etcd as its API servers would, is recovered after a restart. Each change is
// recovered, by fewer requests than there are revisions. KUBECDC_TEST_NODES=5000 make slow RUN=TestSlowAMinute takes 12 GB.
func TestSlowAMinuteOfALargeClusterIsRecovered(t *testing.T) {
	servers.Slow(t)
	nodes := 200
	if n := os.Getenv("KUBECDC_TEST_NODES"); n != "" {
		nodes = must[int](t)(strconv.Atoi(n))
	}
	k := ownKubernetes(t, servers.KubernetesOptions{APIServerFlags: []string{"--event-ttl=24h"}})
	c := newLargeCluster(t, k, minute.Cluster(float64(nodes)))
	streams := streamsOf([]change.Resource{configMaps})
	for _, p := range c.parts {
		streams = append(streams, change.NewStream(p.Resource, "", "", ""))
	}
	w := newWriter(t, k.Config, 24, []string{"default"})
	requests, revisions := recoverTogether(t, k, streams, nil, w, func() {
		c.write(minute.Writes(rand.New(rand.NewPCG(1, 2)), c.parts, 60))
		mustDo(t, k.RestartAPIServer(context.Background()))
		must[*corev1.NodeList](t)(kubernetes.NewForConfigOrDie(k.Config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1}))
	})
	if requests > revisions+200 { // a small one takes some for each stream
		t.Error("more requests than revisions")
	}
}

// largeCluster writes objects of a cluster into etcd.
type largeCluster struct {
	t       *testing.T
	etcd    *clientv3.Client
	parts   []minute.Part
	leases  []clientv3.LeaseID // leases of Events, the oldest first
	written map[string]int     // how often, by key in etcd
}

func newLargeCluster(t *testing.T, k *servers.Kubernetes, parts []minute.Part) *largeCluster {
	c := &largeCluster{t: t, etcd: k.Etcd(), parts: parts, written: map[string]int{}}
	for n, p := range parts {
		group, ctx := errgroup.WithContext(t.Context())
		if group.SetLimit(4); p.Leased { // they expire in the order in which they were written
			group.SetLimit(1)
		}
		for ops := range slices.Chunk(slices.Collect(c.puts(n)), 100) {
			group.Go(func() error {
				_, err := c.etcd.Txn(ctx).Then(ops...).Commit()
				return err
			})
		}
		mustDo(t, group.Wait())
	}
	return c
}

// puts writes the objects of a part that are there at the beginning.
func (c *largeCluster) puts(part int) iter.Seq[clientv3.Op] {
	p := &c.parts[part]
	return func(yield func(clientv3.Op) bool) {
		for i := range p.Alive {
			if !yield(c.put(part, p.Key(i), c.leaseOf(p, i)...)) {
				return
			}
		}
	}
}

// leaseOf grants leases to the oldest objects: more than a minute ends.
func (c *largeCluster) leaseOf(p *minute.Part, i int) []clientv3.OpOption {
	if !p.Leased || float64(i) > 61*p.Turns+minute.Expiring {
		return nil
	}
	if i%minute.Expiring == 0 {
		c.leases = append(c.leases, must[*clientv3.LeaseGrantResponse](c.t)(c.etcd.Grant(c.t.Context(), 24*3600)).ID)
	}
	return []clientv3.OpOption{clientv3.WithLease(c.leases[len(c.leases)-1])}
}

func (c *largeCluster) write(all []minute.Write) {
	for _, w := range all {
		ctx, err := c.t.Context(), error(nil)
		switch {
		case w.Key == "":
			_, err = c.etcd.Revoke(ctx, c.leases[0])
			c.leases = c.leases[1:]
		case w.Delete:
			_, err = c.etcd.Delete(ctx, c.keyOf(w.Part, w.Key))
		default:
			_, err = c.etcd.Do(ctx, c.put(w.Part, w.Key))
		}
		mustDo(c.t, err)
	}
}

func (c *largeCluster) keyOf(part int, key string) string {
	return (&togetherStream{Stream: change.NewStream(c.parts[part].Resource, "", "", "")}).prefix() + key
}

// put writes an object in another state than before.
func (c *largeCluster) put(part int, key string, options ...clientv3.OpOption) clientv3.Op {
	event := c.keyOf(part, key)
	namespace, name := change.SplitKey(key)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(key), CreationTimestamp: metav1.Unix(1.7e9, 0),
		Annotations: map[string]string{"state": strconv.Itoa(c.written[event])}}
	c.written[event]++
	return clientv3.OpPut(event, string(must[[]byte](c.t)(encodeStored(c.parts[part].Resource, meta))), options...)
}

// encodeStored returns an object as an API server stores it.
func encodeStored(r change.Resource, meta metav1.ObjectMeta) ([]byte, error) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1.2.3",
		Env: slices.Repeat([]corev1.EnvVar{{Name: "SETTING", Value: strings.Repeat("v", 40)}}, 10)}}}}
	ref := corev1.ObjectReference{Namespace: meta.Namespace, Name: meta.Name, Kind: "Pod"}
	object := map[string]runtime.Object{
		"pods":           &corev1.Pod{ObjectMeta: meta, Spec: template.Spec},
		"nodes":          &corev1.Node{ObjectMeta: meta},
		"events":         &corev1.Event{ObjectMeta: meta, InvolvedObject: ref, Reason: "Started", Message: "Started container app"},
		"leases":         &coordinationv1.Lease{ObjectMeta: meta},
		"deployments":    &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}},
		"replicasets":    &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}},
		"endpointslices": &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4},
		"jobs":           &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
	}[r.Plural]
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), schema.GroupVersion{Group: r.Group, Version: r.Version})
	return runtime.Encode(encoder, object)
}
