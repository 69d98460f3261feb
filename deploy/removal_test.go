package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// The shipped rights distinguish a removed resource from one that the API server does not show for now. The objects of the latter
// are never recorded as deleted. Without the rights no deletion is recorded, and /readyz names the missing right. The deletions
// follow when it is granted.
func TestTheShippedRightsDetectARemoval(t *testing.T) {
	kube := servers.Kube(t)
	admin := clientset(t, kube.Config)
	apply(t, kube.Config, build(t, "base"))
	mayRead(t, admin, "widgets", "example.com")
	e2e.InstallWidgets(t, kube.Config)
	widgets := dynamic.NewForConfigOrDie(kube.Config).Resource(e2e.Widgets.GVR).Namespace("default")
	create := func(name string) {
		t.Helper()
		_, err := widgets.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": name}}}, metav1.CreateOptions{})
		must(t, err)
	}
	create("one")
	h := newHiding(t, kube.UserConfig(kube.Address, accountToken(t, admin, "kubecdc", "kubecdc")), "example.com")
	exporter := e2e.StartExporter(t, "exporter", map[string]string{"KUBECONFIG": h.kubeconfig, "KUBECDC_SINK": "stdout",
		"KUBECDC_RESOURCES": "configmaps,widgets.example.com", "KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")})
	exporter.AwaitReady(t)
	says := func(what string, in func() string) {
		t.Helper()
		e2e.Await(t, what, func() (bool, error) { return strings.Contains(in(), what), nil })
	}
	deleted := func() (n int) {
		for _, line := range strings.Split(exporter.Output(), "\n") {
			if strings.Contains(line, `"table":"widgets"`) && strings.Contains(line, `"op":"d"`) {
				n++
			}
		}
		return n
	}

	h.hide(true)
	says("it is registered", exporter.Wrong)
	h.hide(false)
	create("two")
	says(`"name":"two"`, exporter.Output)
	e2e.Await(t, "all to be well again", func() (bool, error) { return exporter.Wrong() == "", nil })

	withoutRights(t, admin, "apiextensions.k8s.io", "apiregistration.k8s.io")
	e2e.Await(t, "exporter check to name the right", func() (bool, error) {
		c := e2e.Command(t, map[string]string{"KUBECONFIG": h.kubeconfig, "KUBECDC_SINK": "stdout", "KUBECDC_LISTEN": "off",
			"KUBECDC_RESOURCES": "configmaps,widgets.example.com", "KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")},
			"check")
		out, err := c.CombinedOutput()
		return strings.Contains(string(out), "get customresourcedefinitions.apiextensions.k8s.io, list apiservices.apiregistration.k8s.io"), err
	})
	h.hide(true) // so that the watch does not see the objects go
	e2e.RemoveWidgets(t, kube.Config)
	says("get customresourcedefinitions.apiextensions.k8s.io", exporter.Wrong)
	if n := deleted(); n > 0 {
		t.Errorf("%d deletions are recorded, and without the right a removal can't be detected", n)
	}
	apply(t, kube.Config, build(t, "base"))
	e2e.Await(t, "the deletions", func() (bool, error) { return deleted() == 2, nil })
	e2e.Await(t, "all to be well again", func() (bool, error) { return exporter.Wrong() == "", nil })
}

// mayRead binds the shipped account to a role that may list and watch one more resource.
func mayRead(t *testing.T, admin kubernetes.Interface, resource, group string) {
	t.Helper()
	rbac := admin.RbacV1()
	meta := metav1.ObjectMeta{Name: "kubecdc-" + resource}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kubecdc", Name: "kubecdc"}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = rbac.ClusterRoleBindings().Delete(t.Context(), meta.Name, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(t.Context(), meta.Name, metav1.DeleteOptions{})
	})
}

// withoutRights removes the rules of some groups from the shipped role.
func withoutRights(t *testing.T, admin kubernetes.Interface, groups ...string) {
	t.Helper()
	role, err := admin.RbacV1().ClusterRoles().Get(t.Context(), "kubecdc", metav1.GetOptions{})
	must(t, err)
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		group := strings.Join(rule.APIGroups, "")
		if group == "" || !strings.Contains(strings.Join(groups, " "), group) {
			rules = append(rules, rule)
		}
	}
	role.Rules = rules
	if _, err := admin.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hiding is a proxy before an API server that can hide an API group, like a server that has just started.
type hiding struct {
	*httptest.Server
	kubeconfig string
	group      string
	hidden     atomic.Bool
}

func newHiding(t *testing.T, config *rest.Config, group string) *hiding {
	t.Helper()
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	h := &hiding{group: group, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval, proxy.ModifyResponse = transport, -1, h.strip
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		if h.hidden.Load() && strings.HasPrefix(r.URL.Path, "/apis/"+group+"/") {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"h","contexts":[{"name":"h","context":{"cluster":"h","user":"h"}}],
		"users":[{"name":"h","user":{}}],"clusters":[{"name":"h","cluster":{"server":"%s"}}]}`, h.URL)
	must(t, os.WriteFile(h.kubeconfig, []byte(text), 0o600))
	return h
}

func (h *hiding) hide(hidden bool) {
	h.hidden.Store(hidden)
	h.CloseClientConnections()
}

// strip removes the group from the discovery document.
func (h *hiding) strip(r *http.Response) error {
	if !h.hidden.Load() || r.Request.URL.Path != "/apis" {
		return nil
	}
	var document map[string]any
	if err := json.NewDecoder(r.Body).Decode(&document); err != nil {
		return err
	}
	var items []any
	for _, item := range document["items"].([]any) {
		if item.(map[string]any)["metadata"].(map[string]any)["name"] != h.group {
			items = append(items, item)
		}
	}
	document["items"] = items
	text, err := json.Marshal(document)
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Del("Content-Length")
	return err
}
