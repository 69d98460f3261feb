package reflector_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbac "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"kubecdc/change"
	"kubecdc/test/servers"
)

var roles = change.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role", Namespaced: true}

// hostileNames are names that kube-apiserver accepts of RBAC's objects, and that mean something else in a selector.
var hostileNames = []string{"a,b", "zed,", "x", "x,metadata.name!=x", "metadata.name=x", "a=b", "a==b", "a!=b", `a\b`, `a\,b`, `\`, "new\nline", "esc\x1b[2J", `quo"te`,
	"ns-0:x+y z", "ümlaut", "nul\x00", "nul\x00,b"}

// A gap over objects with such names is recovered completely, and each change has its own object.
func TestObjectsWithHostileNamesAreRecovered(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	api := kubernetes.NewForConfigOrDie(k.Config).RbacV1().Roles(ns)
	for _, name := range hostileNames {
		must[*rbacv1.Role](t)(api.Create(t.Context(), role(name, ""), metav1.CreateOptions{}))
	}
	g := newGateway(t, k.Config)
	l, o := newLedger(), &quietObserver{}
	startStream(t, g.config(), change.NewStream(roles, ns, "", ""), testOptions(), l, o)
	l.await(t, "the first list", func() bool { return len(l.objects) == len(hostileNames) && l.position != "" })
	begin := position(l)
	for i := range 3 {
		g.hold()
		for j, name := range hostileNames {
			changeRole(t, api, name, (i+j)%3)
		}
		last := must[*rbacv1.Role](t)(api.Create(t.Context(), role("last-"+strconv.Itoa(i), ""), metav1.CreateOptions{}))
		g.release(true)
		l.awaitPosition(t, last.ResourceVersion)
	}
	equalLogs(t, logSays(l.changes[len(hostileNames):]), etcdSaysOf(t, k, "/registry/roles/"+ns+"/", begin))
	for _, gap := range gaps(l.controls) {
		if !gap.Complete || gap.Inferred > 0 {
			t.Errorf("gap record %+v", gap)
		}
	}
	if len(gaps(l.controls)) != 3 {
		t.Errorf("%d gap records, want 3", len(gaps(l.controls)))
	}
}

func role(name, label string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"v": label}}}
}

// changeRole updates a role, deletes it, or makes it anew.
func changeRole(t *testing.T, api rbac.RoleInterface, name string, how int) {
	t.Helper()
	if how > 0 {
		mustDo(t, api.Delete(t.Context(), name, metav1.DeleteOptions{}))
		must[*rbacv1.Role](t)(api.Create(t.Context(), role(name, "anew"), metav1.CreateOptions{}))
	}
	if how < 2 {
		must[*rbacv1.Role](t)(api.Update(t.Context(), role(name, "first"), metav1.UpdateOptions{}))
		must[*rbacv1.Role](t)(api.Update(t.Context(), role(name, "second"), metav1.UpdateOptions{}))
	}
}

// etcdSaysOf is etcdSays of one namespace of another resource.
func etcdSaysOf(t *testing.T, k *servers.Kubernetes, prefix string, after int64) (all []string) {
	t.Helper()
	events, err := k.EtcdHistory(context.Background(), prefix, after+1)
	mustDo(t, err)
	_, namespace, _ := strings.Cut(strings.TrimPrefix(prefix, "/registry/"), "/")
	for _, e := range events {
		all = append(all, logged(e.Op, namespace+strings.TrimPrefix(e.Key, prefix), strconv.FormatInt(e.Revision, 10)))
	}
	return all
}
