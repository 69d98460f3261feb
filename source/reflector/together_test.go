package reflector_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"kubecdc/source/reflector"
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
	*change.Stream
	gateway *gateway
	log     *ledger
	from    int64
}

// keys is the prefix of the resource's keys in etcd.
func (s *togetherStream) keys() string {
	if s.Resource.Plural == "nodes" {
		return "/registry/minions/"
	}
	return "/registry/" + s.Resource.Plural + "/"
}

// prefix returns the prefix of the stream's keys.
func (s *togetherStream) prefix() string {
	return s.keys() + strings.TrimPrefix(s.Namespace+"/", "/")
}

// streamsOf returns a stream of each resource, in each of the namespaces. Without namespaces it returns one stream of each resource, in
// all namespaces.
func streamsOf(resources []change.Resource, namespaces ...string) (all []*change.Stream) {
	for _, r := range resources {
		for _, ns := range append(namespaces, "")[:max(1, len(namespaces))] {
			all = append(all, change.NewStream(r, ns, "", ""))
		}
	}
	return all
}

func startTogether(t *testing.T, k *servers.Kubernetes, all []*change.Stream, served []change.Resource) (streams []*togetherStream) {
	t.Helper()
	options := testOptions() // the options of all streams
	options.PageSize = 500
	options.Recovery.SetServed(served)
	for _, one := range all {
		s := &togetherStream{Stream: one, gateway: newGateway(t, k.Config), log: newLedger()}
		startStream(t, s.gateway.config(), one, options, s.log, &quietObserver{})
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

// An API server's restart makes all streams recover at once. What one of them finds, the others need not ask for. Together they make few
// more requests than the busiest one alone, which has to account for each revision. Each log is etcd's own history.
func TestStreamsThatRecoverTogetherAskLittleMoreThanTheBusiest(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 21, []string{"default", "kube-public"})
	w.names = 20
	requests, revisions := recoverTogether(t, k, streamsOf(manyResources()), nil, w, func() { changeUnseen(t, w.client, w) })
	if requests > 2*revisions {
		t.Error("that is more than twice what the busiest one needs")
	}
}

// What is left out and readable explains revisions too: the 150 of Leases need not be read by each of 60 streams.
func TestWhatIsLeftOutExplainsRevisions(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 22, []string{"default", "kube-public"})
	served := allResources(t, w.client)
	exported := slices.DeleteFunc(slices.Clone(served), func(r change.Resource) bool { return r.Plural == "leases" })
	renew := renewLeases(t, w.client, 5)
	requests, _ := recoverTogether(t, k, streamsOf(exported), served, w, func() {
		for range 10 {
			renew(15)
			w.one()
		}
	})
	if requests > 700 {
		t.Error("more than 700 are too many")
	}
}

// Without the right to list Leases, recoveries are as complete. A warning says once which right would spare most of their requests.
func TestLeasesThatMayNotBeListedAreReportedOnce(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 24, []string{"default", "kube-public"})
	grantReader(t, w.client, "services", "pods")
	renew, log := renewLeases(t, w.client, 5), &recorder{}
	options := testOptions()
	options.Recovery = reflector.NewRecovery(10_000, 10_000, slog.New(slog.NewTextHandler(log, nil)))
	options.Recovery.Parallel, options.Recovery.MaxRevisions = 4, 100_000
	options.Recovery.SetServed(resourcesOf("coordination.k8s.io", "v1", "leases"))
	var gateways []*gateway
	var logs []*ledger
	for _, s := range streamsOf(resourcesOf("", "v1", "configmaps services pods")) {
		g, l := newGateway(t, k.UserConfig(k.Address, servers.Reader.Token)), newLedger()
		startStream(t, g.config(), s, options, l, &quietObserver{})
		gateways, logs = append(gateways, g), append(logs, l)
	}
	warnings := func() int {
		log.mu.Lock()
		defer log.mu.Unlock()
		return strings.Count(log.text.String(), "since Leases may not be listed: grant what exporter rbac prints")
	}
	for round, after := 0, 0; round < 20 && after < 2; round++ { // in a round, unless one stream is done before the next begins
		for i, l := range logs {
			l.awaitStarted(t)
			gateways[i].hold()
		}
		renew(60)
		made := must[*corev1.ConfigMap](t)(w.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprint("n", round), nil), metav1.CreateOptions{}))
		for _, g := range gateways {
			go g.release(true)
		}
		for _, l := range logs {
			l.awaitPosition(t, made.ResourceVersion)
		}
		if warnings() > 0 {
			after++
		}
	}
	if n := warnings(); n != 1 {
		t.Errorf("the warning comes %d times in\n%s", n, log.text.String())
	}
}

// Streams of many namespaces share what one of them reads of the resource in all namespaces. There are 302 streams over 330 revisions,
// 130 of which belong to none.
func TestStreamsOfManyNamespacesShareSizes(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	var namespaces []string
	client := kubernetes.NewForConfigOrDie(k.Config)
	for i := range 60 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%03d", i)}}
		namespaces = append(namespaces, must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})).Name)
	}
	w := newWriter(t, k.Config, 23, namespaces)
	w.names = 2
	renew := renewLeases(t, w.client, 5)
	streams := append(streamsOf([]change.Resource{configMaps, deployments}, namespaces...), streamsOf(resourcesOf("", "v1", "nodes namespaces"))...)
	requests, _ := recoverTogether(t, k, streams, nil, w, func() {
		for range 20 {
			renew(5)
			w.run(10)
		}
	})
	if requests > 3_000 {
		t.Error("more than 3,000 are too many")
	}
}

// renewLeases returns a function that renews some Leases in turn.
func renewLeases(t *testing.T, client kubernetes.Interface, n int) (renew func(times int)) {
	leases, held, next := client.CoordinationV1().Leases("default"), make([]*coordinationv1.Lease, n), 0
	for i := range held {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		held[i] = must[*coordinationv1.Lease](t)(leases.Create(t.Context(), lease, metav1.CreateOptions{}))
	}
	return func(times int) {
		for range times {
			lease := held[next%n]
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			held[next%n] = must[*coordinationv1.Lease](t)(leases.Update(context.Background(), lease, metav1.UpdateOptions{}))
			next++
		}
	}
}

// changeUnseen changes ConfigMaps most, and also Events and Deployments.
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
			mustDo(t, deploy.Delete(ctx, name, metav1.DeleteOptions{}))
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
		version := must[schema.GroupVersion](t)(schema.ParseGroupVersion(group.GroupVersion))
		for _, r := range group.APIResources {
			one := change.Resource{Group: version.Group, Version: version.Version, Plural: r.Name, Kind: r.Kind, Namespaced: r.Namespaced}
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

// recoverTogether returns how many requests the recoveries of the streams made, and over how many revisions. w and change have changed
// what their watches did not deliver.
func recoverTogether(t *testing.T, k *servers.Kubernetes, all []*change.Stream, served []change.Resource, w *writer, change func()) (requests, revisions int) {
	t.Helper()
	ctx := context.Background()
	if os.Getenv("KUBECDC_TEST_STREAMS") == "all" {
		all = streamsOf(allResources(t, w.client))
	}
	awaitRest(t, k)
	streams := startTogether(t, k, all, served)
	started := revision(t, k) + 1
	w.run(50) // while the positions of quiet streams stay
	for _, e := range must[[]servers.EtcdEvent](t)(k.EtcdHistory(ctx, "/registry/configmaps/", started)) {
		for _, s := range streams {
			if strings.HasPrefix(e.Key, s.prefix()) {
				s.log.awaitPosition(t, strconv.FormatInt(e.Revision, 10))
			}
		}
	}
	for _, s := range streams {
		s.gateway.hold()
		s.from = position(s.log)
	}
	change()
	to := revision(t, k)
	ends, history := map[string]int64{}, map[string][]servers.EtcdEvent{} // later writes, such as the API server's lease, would need a bookmark
	for _, s := range streams {
		if keys := s.keys(); ends[keys] == 0 {
			ends[keys] = must[int64](t)(k.RevisionOf(ctx, keys))
			history[keys] = must[[]servers.EtcdEvent](t)(k.EtcdHistory(ctx, keys, started))
		}
	}
	var released sync.WaitGroup
	releasedAt := time.Now()
	for _, s := range streams {
		released.Go(func() { s.gateway.release(true) })
	}
	released.Wait()
	for _, s := range streams {
		s.log.awaitPosition(t, strconv.FormatInt(ends[s.keys()], 10))
		changes, controls := s.log.snapshot()
		var want, got []string
		for _, e := range history[s.keys()] {
			if e.Revision > s.from && e.Revision <= ends[s.keys()] && strings.HasPrefix(e.Key, s.prefix()) {
				want = append(want, logged(e.Op, strings.TrimPrefix(e.Key, s.keys()), strconv.FormatInt(e.Revision, 10)))
			}
		}
		for _, line := range logSays(changes) {
			if revision, _ := strconv.ParseInt(line[strings.LastIndex(line, "@")+1:], 10, 64); revision > s.from && revision <= ends[s.keys()] {
				got = append(got, line)
			}
		}
		equalLogs(t, got, want)
		own := 0
		for _, g := range gaps(controls) {
			if own += g.Requests; !g.Complete {
				t.Errorf("%s: %+v, want it complete", s.ID(), g)
			}
		}
		t.Logf("%-28s %3d requests, %d gaps, of them %d of the past", s.ID(), own, len(gaps(controls)), s.gateway.exact)
		requests += own
	}
	revisions = int(to - streams[0].from)
	t.Logf("%d streams made %d requests over %d revisions in %s", len(streams), requests, revisions, time.Since(releasedAt))
	return requests, revisions
}
