package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// etcd is restored from a backup. A watch ends then, since what follows may have versions that its client already has. A version
// that both histories have is refused. One from before the backup is not.
func TestAWatchEndsWhenEtcdIsRestored(t *testing.T) {
	p := newPast(t, "KUBECDC_RESOURCES=configmaps")
	configs := p.client.CoreV1().ConfigMaps("default")
	create := func(name string) {
		servers.Await(t, name, func() (bool, error) {
			_, err := configs.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err == nil, nil
		})
	}
	create("a")
	create("b")
	b := must[*corev1.ConfigMap](t)(configs.Get(t.Context(), "b", metav1.GetOptions{})).ResourceVersion
	then := p.names(p.dynamic)
	backup := must[string](t)(p.kube.SnapshotEtcd(t.Context()))
	create("c")
	upTo := func() {
		now := p.names(p.dynamic)
		servers.Await(t, "the log of all", func() (bool, error) { return slices.Equal(p.listed(t, ""), now), nil })
	}
	upTo()
	from := fmt.Sprint(must[int64](t)(p.kube.Revision(t.Context())))
	const path = "/api/v1/namespaces/default/configmaps?"
	watched := make(chan answer, 1)
	go func() { watched <- p.ours(path+"watch=1&timeoutSeconds=100&resourceVersion="+from, asObjects) }()
	ok(t, p.kube.RestoreEtcd(t.Context(), backup))
	create("d")
	upTo()
	if a := <-watched; !strings.Contains(string(a.body), `"code":410`) || !strings.Contains(string(a.body), "etcd was restored from a backup") {
		t.Errorf("the watch got %s", a.body)
	}
	for question, want := range map[string]string{"watch=1&timeoutSeconds=1": "since resourceVersion", "resourceVersionMatch=Exact": "stands for the states at"} {
		a := p.ours(path+question+"&resourceVersion="+from, asObjects)
		if body := string(a.body); !strings.Contains(body, `"code":410`) || !strings.Contains(body, want) {
			t.Errorf("%s of both histories: %d %s", question, a.code, body)
		}
	}
	if got := p.listed(t, change.ResourceVersion(b)); !slices.Equal(got, slices.DeleteFunc(then, func(o string) bool { return !strings.Contains(o, "/") })) {
		t.Errorf("before the backup there was %v, and the log says %v", then, got)
	}
}
