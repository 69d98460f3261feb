package reflector_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/test/servers"
)

var deployments = change.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
}

// The API server stores events and deployments in another etcd than configmaps. Both are written in turns, at the same numbers, which
// are different revisions: changes of one explain nothing in the other. All gaps are recovered, one stream after another, and are each
// etcd's own history.
func TestGapsOverTwoEtcdsAreEachEtcdsOwnHistory(t *testing.T) {
	t.Parallel()
	k := ownKubernetes(t, servers.KubernetesOptions{OwnEtcd: []string{"/events", "apps/deployments"}})
	client, ctx := kubernetes.NewForConfigOrDie(k.Config), context.Background()
	deploy, events := client.AppsV1().Deployments("default"), client.CoreV1().Events("default")
	rev := func(prefix string) int64 { return must[int64](t)(k.RevisionOf(ctx, prefix)) }
	const inFirst, inSecond = "/registry/configmaps/", "/registry/deployments/"
	must[*appsv1.Deployment](t)(deploy.Create(ctx, deployment("pace", 1), metav1.CreateOptions{}))
	for i := int32(2); rev(inSecond) < rev(inFirst); i++ {
		must[*appsv1.Deployment](t)(deploy.Update(ctx, deployment("pace", i), metav1.UpdateOptions{}))
	}

	options := testOptions() // its coordinator is of all streams
	kinds := []struct {
		resource change.Resource
		prefix   string
		gateway  *gateway
		log      *ledger
		from     int64
	}{{resource: configMaps, prefix: inFirst}, {resource: deployments, prefix: inSecond}, {resource: eventsResource, prefix: "/registry/events/"}}
	for i := range kinds {
		kind := &kinds[i]
		kind.gateway, kind.log = newGateway(t, k.Config), newLedger()
		startStream(t, kind.gateway.config(), change.NewStream(kind.resource, "", "", ""), options, kind.log, &quietObserver{})
		kind.log.awaitStarted(t)
		kind.gateway.hold()
		kind.from = position(kind.log)
	}
	w := newWriter(t, k.Config, 13, []string{"default", "kube-public"})
	for i := range 60 {
		name := fmt.Sprint("d", i/3)
		w.one()
		switch i % 3 { // each lives and dies unseen
		case 0:
			must[*appsv1.Deployment](t)(deploy.Create(ctx, deployment(name, 1), metav1.CreateOptions{}))
		case 1:
			must[*appsv1.Deployment](t)(deploy.Update(ctx, deployment(name, 2), metav1.UpdateOptions{}))
		default:
			mustDo(t, deploy.Delete(ctx, name, metav1.DeleteOptions{}))
		}
		w.one()
		must[*corev1.Event](t)(events.Create(ctx, event("default", fmt.Sprint("e", i)), metav1.CreateOptions{}))
	}
	if a, b := rev(inFirst), rev(inSecond); max(a-b, b-a) > 20 {
		t.Fatalf("the etcds are at revisions %d and %d: too different to be taken for one another", a, b)
	}
	for _, kind := range kinds {
		to := rev(kind.prefix)
		kind.gateway.release(true)
		kind.log.awaitPosition(t, strconv.FormatInt(to, 10))
		changes, controls := kind.log.snapshot()
		var want []string
		for _, e := range must[[]servers.EtcdEvent](t)(k.EtcdHistory(ctx, kind.prefix, kind.from+1)) {
			want = append(want, logged(e.Op, strings.TrimPrefix(e.Key, kind.prefix), strconv.FormatInt(e.Revision, 10)))
		}
		equalLogs(t, logSays(changes), want)
		if all := gaps(controls); len(all) != 1 || !all[0].Complete {
			t.Errorf("%s: gap records %+v, want one that is complete", kind.resource.ID(), all)
		}
		t.Logf("%s: %d changes between revisions %d and %d", kind.resource.ID(), len(want), kind.from, to)
	}
}

// Streams of one resource (KUBECDC_NAMESPACES) are in one etcd: what one has recovered, the next need not ask about.
func TestNamespacesOfOneResourceSpareEachOtherRequests(t *testing.T) {
	k := servers.Lend(t) // where nobody else writes, such as an API server that ends a CRD's objects
	busy, calm := "default", "kube-public"
	options, gateways, logs := testOptions(), map[string]*gateway{}, map[string]*ledger{}
	for _, ns := range []string{busy, calm} {
		gateways[ns], logs[ns] = newGateway(t, k.Config), newLedger()
		startStream(t, gateways[ns].config(), change.NewStream(configMaps, ns, "", ""), options, logs[ns], &quietObserver{})
		logs[ns].awaitStarted(t)
		gateways[ns].hold()
	}
	newWriter(t, k.Config, 14, []string{busy}).run(50)
	newWriter(t, k.Config, 15, []string{calm}).run(10)
	to := strconv.FormatInt(revision(t, k), 10)
	for _, ns := range []string{busy, calm} {
		gateways[ns].release(true)
		logs[ns].awaitPosition(t, to)
	}
	if g := onlyGap(t, logs[calm]); !g.Complete || g.Recovered != 10 || g.Requests >= 50 {
		t.Errorf("gap record %+v, want it complete with 10 changes, in fewer requests than the other namespace has changes", g)
	}
	if g := onlyGap(t, logs[busy]); !g.Complete || g.Recovered != 50 {
		t.Errorf("gap record %+v, want it complete with 50 changes", g)
	}
}
