package reflector_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// resourcesOf returns resources that kube-apiserver serves, of one group version.
func resourcesOf(group, version, plurals string) (all []change.Resource) {
	for _, plural := range strings.Fields(plurals) {
		all = append(all, change.Resource{Group: group, Version: version, Plural: plural, Kind: plural, Namespaced: true})
	}
	return all
}

// togetherStream is one of the streams that recover together.
type togetherStream struct {
	resource change.Resource
	gateway  *gateway
	log      *ledger
	from     int64
}

func startTogether(t *testing.T, k *servers.Kubernetes, resources, leftOut []change.Resource) (streams []*togetherStream) {
	t.Helper()
	options := testOptions() // of all streams
	options.PageSize = 500
	options.Recovery.SetServed(slices.Concat(resources, leftOut))
	for _, r := range resources {
		s := &togetherStream{resource: r, gateway: newGateway(t, k.Config), log: newLedger()}
		startStream(t, s.gateway.config(), change.NewStream(r, "", "", ""), options, s.log, &quietObserver{})
		streams = append(streams, s)
	}
	for _, s := range streams {
		s.log.awaitStarted(t)
	}
	return streams
}

// awaitRest waits until an API server that has started writes nothing more: nobody's stream has what it writes then.
func awaitRest(t *testing.T, k *servers.Kubernetes) {
	t.Helper()
	for last, since := revision(t, k), time.Now(); time.Since(since) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := revision(t, k); now != last {
			last, since = now, time.Now()
		}
	}
}

// An API server's restart makes all streams recover at once. What one of them finds, the others need not ask for: together they
// ask for little more than the busiest one alone, which has to account for each revision. Each log is etcd's own history.
func TestStreamsThatRecoverTogetherAskLittleMoreThanTheBusiest(t *testing.T) {
	t.Parallel()
	busiest := func(options servers.KubernetesOptions) func(*testing.T) {
		return func(t *testing.T) {
			k := ownKubernetes(t, options)
			w := newWriter(t, k.Config, 21, []string{"default", "kube-public"})
			w.names = 20
			requests, revisions := recoverTogether(t, k, manyResources(), nil, w, func() { changeUnseen(t, w.client, w) })
			if requests > 2*revisions {
				t.Error("that is more than twice what the busiest one needs")
			}
		}
	}
	t.Run("one etcd", busiest(servers.KubernetesOptions{}))
	t.Run("another one for Events", busiest(servers.KubernetesOptions{OwnEtcd: []string{"/events"}}))
}

// What is left out and readable explains revisions too: the 150 of Leases need not be read by each of 60 streams.
func TestWhatIsLeftOutExplainsRevisions(t *testing.T) {
	t.Parallel()
	k := ownKubernetes(t, servers.KubernetesOptions{})
	w := newWriter(t, k.Config, 22, []string{"default", "kube-public"})
	isLease := func(r change.Resource) bool { return r.Plural == "leases" }
	resources := slices.DeleteFunc(allResources(t, w.client), isLease)
	leases, held := w.client.CoordinationV1().Leases("default"), make([]*coordinationv1.Lease, 5)
	for i := range held {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		held[i] = must[*coordinationv1.Lease](t)(leases.Create(context.Background(), lease, metav1.CreateOptions{}))
	}
	renew := func() {
		for i := range 150 {
			lease := held[i%5]
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			held[i%5] = must[*coordinationv1.Lease](t)(leases.Update(context.Background(), lease, metav1.UpdateOptions{}))
			if i%15 == 0 {
				w.one()
			}
		}
	}
	requests, _ := recoverTogether(t, k, resources, slices.DeleteFunc(allResources(t, w.client), func(r change.Resource) bool { return !isLease(r) }), w, renew)
	if requests > 700 {
		t.Error("more than 700 are too many")
	}
}

// changeUnseen changes ConfigMaps most, and Events and Deployments besides.
func changeUnseen(t *testing.T, client kubernetes.Interface, w *writer) {
	ctx := context.Background()
	for i := range 20 {
		w.run(20)
		name := fmt.Sprint("d", i/4)
		must[*corev1.Event](t)(client.CoreV1().Events("default").Create(ctx, event("default", fmt.Sprint("e", i)), metav1.CreateOptions{}))
		switch deploy := client.AppsV1().Deployments("default"); i % 4 { // each lives and dies unseen
		case 0:
			must[*appsv1.Deployment](t)(deploy.Create(ctx, deployment(name, 1), metav1.CreateOptions{}))
		case 1, 2:
			must[*appsv1.Deployment](t)(deploy.Update(ctx, deployment(name, int32(1+i)), metav1.UpdateOptions{}))
		default:
			ok(t, deploy.Delete(ctx, name, metav1.DeleteOptions{}))
		}
	}
}

// manyResources are ConfigMaps, Deployments, Events and 19 quiet ones. allResources are all that kube-apiserver serves, with
// KUBECDC_TEST_STREAMS=all.
func manyResources() []change.Resource {
	resources := append([]change.Resource{configMaps, deployments, eventsResource},
		resourcesOf("", "v1", "pods services secrets endpoints limitranges persistentvolumeclaims replicationcontrollers resourcequotas")...)
	resources = append(resources, resourcesOf("apps", "v1", "daemonsets replicasets statefulsets controllerrevisions")...)
	resources = append(resources, resourcesOf("batch", "v1", "jobs cronjobs")...)
	resources = append(resources, resourcesOf("networking.k8s.io", "v1", "ingresses networkpolicies")...)
	resources = append(resources, resourcesOf("rbac.authorization.k8s.io", "v1", "roles rolebindings")...)
	resources = append(resources, resourcesOf("coordination.k8s.io", "v1", "leases")...)
	return resources
}

func allResources(t *testing.T, client kubernetes.Interface) []change.Resource {
	all := []change.Resource{configMaps, deployments, eventsResource}
	for _, group := range must[[]*metav1.APIResourceList](t)(client.Discovery().ServerPreferredResources()) {
		at := must[schema.GroupVersion](t)(schema.ParseGroupVersion(group.GroupVersion))
		for _, r := range group.APIResources {
			one := change.Resource{Group: at.Group, Version: at.Version, Plural: r.Name, Kind: r.Kind, Namespaced: r.Namespaced}
			known := slices.ContainsFunc(all, func(o change.Resource) bool {
				return o.Plural == one.Plural && (o.Group == one.Group || one.Plural == "events")
			})
			if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "list") && !known {
				all = append(all, one)
			}
		}
	}
	return all
}

// recoverTogether returns how many requests the recoveries of the resources made, and over how many revisions, when w and change
// have changed what their watches did not deliver.
func recoverTogether(t *testing.T, k *servers.Kubernetes, resources, leftOut []change.Resource, w *writer, change func()) (requests, revisions int) {
	t.Helper()
	ctx := context.Background()
	if os.Getenv("KUBECDC_TEST_STREAMS") == "all" {
		resources = allResources(t, w.client)
	}
	awaitRest(t, k)
	streams := startTogether(t, k, resources, leftOut)
	w.run(50) // while the positions of quiet streams stay
	streams[0].log.awaitPosition(t, strconv.FormatInt(revision(t, k), 10))
	for _, s := range streams {
		s.gateway.hold()
		s.from = position(s.log)
	}
	change()
	to := revision(t, k)
	last := map[string]string{} // by resource; later writes, such as the API server's lease, would need a bookmark
	for _, s := range streams {
		last[s.resource.Plural] = strconv.FormatInt(must[int64](t)(k.RevisionOf(ctx, "/registry/"+s.resource.Plural+"/")), 10)
	}
	var released sync.WaitGroup
	for _, s := range streams {
		released.Go(func() { s.gateway.release(true) })
	}
	released.Wait()
	for _, s := range streams {
		prefix := "/registry/" + s.resource.Plural + "/"
		s.log.awaitPosition(t, last[s.resource.Plural])
		changes, controls := s.log.snapshot()
		if s.resource == configMaps || s.resource == deployments || s.resource == eventsResource {
			var want []string
			for _, e := range must[[]servers.EtcdEvent](t)(k.EtcdHistory(ctx, prefix, s.from+1)) {
				want = append(want, logged(e.Op, strings.TrimPrefix(e.Key, prefix), strconv.FormatInt(e.Revision, 10)))
			}
			var got []string
			for _, line := range logSays(changes) {
				if at, _ := strconv.ParseInt(line[strings.LastIndex(line, "@")+1:], 10, 64); at > s.from {
					got = append(got, line)
				}
			}
			equalLogs(t, got, want)
		}
		own := 0
		for _, g := range gaps(controls) {
			if own += g.Requests; !g.Complete {
				t.Errorf("%s: %+v, want it complete", s.resource.ID(), g)
			}
		}
		t.Logf("%-28s %3d requests, %d gaps, of them %d of the past", s.resource.ID(), own, len(gaps(controls)), s.gateway.exact)
		requests += own
	}
	revisions = int(to - streams[0].from)
	t.Logf("%d streams made %d requests over %d revisions", len(streams), requests, revisions)
	return requests, revisions
}
