package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/checkpoint/sqlite"
	"kubecdc/test/servers"
)

// An API server that is overloaded at a start is asked again. This holds at the first start, which binds the checkpoint to the uid. At a
// later start it must not be taken for another cluster.
func TestAnAPIServerThatIsBusyAtAStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			gate := newIdentityGate(t, k)
			file := filepath.Join(t.TempDir(), "checkpoint.db")
			env := map[string]string{"KUBECONFIG": gate.kubeconfig, "KUBECDC_CLUSTER": "busy", "KUBECDC_CHECKPOINT": "sqlite:" + file,
				"KUBECDC_RESOURCES": "configmaps"}
			for _, start := range []string{"the first start", "a later start"} {
				gate.refuse(code, 2)
				e := StartExporter(t, start, env).AwaitReady(t)
				if log := e.Tail(1 << 20); !strings.Contains(log, "waiting for the API server to say which cluster it is") {
					t.Errorf("%s does not say what it waits for:\n%s", start, log)
				}
				e.stop(t)
			}
			if b := bindingIn(t, file, "busy", change.ClusterIdentity{UID: kubeSystemUID(t, k.Config)}); b.ID != b.Known.UID || b.Known.CA == "" {
				t.Errorf("the checkpoint is bound to %+v", b)
			}
		})
	}
}

func TestWaitingForTheIdentityEndsOnSIGTERM(t *testing.T) {
	t.Parallel()
	gate := newIdentityGate(t, servers.Kube(t))
	gate.refuse(http.StatusServiceUnavailable, 1<<30)
	e := StartExporter(t, "waiting", map[string]string{"KUBECONFIG": gate.kubeconfig, "XDG_STATE_HOME": t.TempDir()})
	Await(t, "the exporter to wait", func() (bool, error) { return strings.Contains(e.Tail(1<<20), "waiting for the API server"), nil })
	e.stop(t)
}

// A proxy's error page is not an answer of the API server, so it must not bind the cluster to its CA.
func TestAProxysPageIsNoAnswerOfTheAPIServer(t *testing.T) {
	t.Parallel()
	gate := newIdentityGate(t, servers.Kube(t))
	gate.refuse(http.StatusNotFound, 1<<30)
	e := StartExporter(t, "behind a proxy", map[string]string{"KUBECONFIG": gate.kubeconfig, "XDG_STATE_HOME": t.TempDir()})
	if code := e.Wait(t); code != 1 || !strings.Contains(e.Tail(2000), "a proxy, or whatever else is at") {
		t.Errorf("exit code %d:\n%s", code, e.Tail(2000))
	}
}

func TestCredentialsThatAreRefusedAreSaid(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	a := newAccount(t, k)
	kubeconfigs := map[string]string{"wrong": filepath.Join(t.TempDir(), "wrong"), "revoked": a.kubeconfig}
	must(t, k.WriteKubeconfig(kubeconfigs["wrong"], k.Address, "no-such-token"))
	must(t, a.admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), a.name, metav1.DeleteOptions{}))
	Await(t, "the token to be refused", func() (bool, error) {
		_, err := a.client.Discovery().RESTClient().Get().AbsPath("/api").DoRaw(t.Context())
		return err != nil, nil
	})
	for name, kubeconfig := range kubeconfigs {
		env := map[string]string{"KUBECONFIG": kubeconfig, "XDG_STATE_HOME": t.TempDir()}
		e := StartExporter(t, name, env)
		if code := e.Wait(t); code != 1 || !strings.Contains(e.Tail(2000), "refuses the credentials") {
			t.Errorf("%s: run: exit code %d\n%s", name, code, e.Tail(2000))
		}
		code, out := command(t, env, "check")
		if code != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), "API server FAILED the API server at") || !strings.Contains(out, "refuses the credentials") {
			t.Errorf("%s: check: exit code %d\n%s", name, code, out)
		}
	}
}

// Without get on kube-system a cluster is known by its CA, and with it by its uid. It is one cluster all the time.
func TestARightOnKubeSystemComesAndGoes(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	a := newAccount(t, k)
	file := filepath.Join(t.TempDir(), "checkpoint.db")
	env := map[string]string{"KUBECONFIG": a.kubeconfig, "KUBECDC_CLUSTER": "rights", "KUBECDC_CHECKPOINT": "sqlite:" + file, "KUBECDC_RESOURCES": "configmaps",
		"KUBECDC_SINK": "stdout"}
	const byCA, lost = "is known by its CA alone", "the right to read namespace kube-system was lost"
	start := func(name, says string, snapshot bool) {
		t.Helper()
		e := StartExporter(t, name, env).AwaitReady(t)
		log := e.Tail(1 << 20)
		for _, text := range []string{byCA, lost} {
			if strings.Contains(log, text) != (text == says) {
				t.Errorf("%s: the log should say %q of these:\n%s", name, says, log)
			}
		}
		e.stop(t)
		if got := strings.Contains(e.Output(), `"op":"r"`); got != snapshot {
			t.Errorf("%s: a snapshot: %v\n%s", name, got, e.Output())
		}
	}
	start("the first start, without the right", byCA, true)
	if code, out := command(t, env, "check"); code != 0 || !strings.Contains(out, byCA) || !strings.Contains(out, "ca-sha256:") {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
	a.grant(true)
	start("with the right", "", false)
	uid := kubeSystemUID(t, k.Config)
	if code, out := command(t, env, "check"); code != 0 || !strings.Contains(out, "uid "+uid) || !strings.Contains(out, `"rights"`) {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
	a.grant(false)
	start("without the right again", lost, false)

	env["KUBECONFIG"] = withAnotherCA(t, a.kubeconfig)
	e := StartExporter(t, "without the right, and with another CA", env)
	if code := e.Wait(t); code != 2 || !strings.Contains(e.Tail(2000), lost) || !strings.Contains(e.Tail(2000), uid) || strings.Contains(e.Tail(2000), "set KUBECDC_CLUSTER") {
		t.Errorf("exit code %d:\n%s", code, e.Tail(2000))
	}
	a.grant(true)
	start("with the right and another CA", "", false)
	if b := bindingIn(t, file, "rights", change.ClusterIdentity{UID: uid}); !strings.HasPrefix(b.ID, "ca-sha256:") || b.Known.CA == b.ID {
		t.Errorf("the checkpoint is bound to %+v", b)
	}
}

func TestAnotherClusterIsRefusedWithBothIdentities(t *testing.T) {
	t.Parallel()
	k := servers.Kube(t)
	file := filepath.Join(t.TempDir(), "checkpoint.db")
	bindingIn(t, file, "mine", change.ClusterIdentity{UID: "11111111-2222-3333-4444-555555555555"})
	e := StartExporter(t, "the other cluster", map[string]string{"KUBECONFIG": k.Kubeconfig, "KUBECDC_CLUSTER": "mine", "KUBECDC_CHECKPOINT": "sqlite:" + file})
	code := e.Wait(t)
	for _, text := range []string{"11111111-2222-3333-4444-555555555555", kubeSystemUID(t, k.Config), "KUBECDC_CLUSTER"} {
		if log := e.Tail(2000); code != 2 || !strings.Contains(log, text) {
			t.Errorf("exit code %d, lacks %q:\n%s", code, text, log)
		}
	}
}

// bindingIn returns the checkpoint's binding to the cluster.
func bindingIn(t *testing.T, file, cluster string, id change.ClusterIdentity) checkpoint.Binding {
	t.Helper()
	store, err := sqlite.Open(t.Context(), file)
	must(t, err)
	defer store.Close()
	b, err := store.Bind(t.Context(), cluster, id)
	must(t, err)
	return b
}

func kubeSystemUID(t *testing.T, c *rest.Config) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	must(t, err)
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	must(t, err)
	return string(ns.UID)
}

// identityGate is a proxy before a real API server that refuses the first reads of namespace kube-system.
type identityGate struct {
	kubeconfig string
	mu         sync.Mutex
	code, left int
}

func newIdentityGate(t *testing.T, k *servers.Kubernetes) *identityGate {
	t.Helper()
	transport, err := rest.TransportFor(k.Config)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: k.Address})
	proxy.Transport, proxy.FlushInterval = transport, -1
	g := &identityGate{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := g.answer(r); code != 0 {
			http.Error(w, "not now", code)
			return
		}
		defer func() { _ = recover() }() // the proxy panics if its client has gone away
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, writeContext(g.kubeconfig, &api.Cluster{Server: server.URL, CertificateAuthorityData: ca}, &api.AuthInfo{}))
	return g
}

// refuse answers the next reads with the code.
func (g *identityGate) refuse(code, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.code, g.left = code, times
}

func (g *identityGate) answer(r *http.Request) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left == 0 || r.URL.Path != "/api/v1/namespaces/kube-system" {
		return 0
	}
	g.left--
	return g.code
}

func writeContext(path string, cluster *api.Cluster, user *api.AuthInfo) error {
	c := api.NewConfig()
	c.Clusters["c"], c.AuthInfos["c"], c.CurrentContext = cluster, user, "c"
	c.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "c"}
	return clientcmd.WriteToFile(*c, path)
}

// account is a ServiceAccount that may list and watch configmaps, and perhaps get namespace kube-system.
type account struct {
	t          *testing.T
	name       string
	kubeconfig string
	admin      *kubernetes.Clientset
	client     *kubernetes.Clientset // acts as the account
}

func newAccount(t *testing.T, k *servers.Kubernetes) *account {
	t.Helper()
	a := &account{t: t, name: servers.UniqueName(), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	var err error
	a.admin, err = kubernetes.NewForConfig(k.Config)
	must(t, err)
	_, err = a.admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: a.name}}, metav1.CreateOptions{})
	must(t, err)
	answer, err := a.admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), a.name, &authentication.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	must(t, k.WriteKubeconfig(a.kubeconfig, k.Address, answer.Status.Token))
	a.client, err = kubernetes.NewForConfig(k.UserConfig(k.Address, answer.Status.Token))
	must(t, err)
	a.bind(a.name, rbac.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}})
	a.await("list", "configmaps", "", true)
	return a
}

func (a *account) bind(role string, rule rbac.PolicyRule) {
	a.t.Helper()
	meta := metav1.ObjectMeta{Name: role}
	_, err := a.admin.RbacV1().ClusterRoles().Create(a.t.Context(), &rbac.ClusterRole{ObjectMeta: meta, Rules: []rbac.PolicyRule{rule}}, metav1.CreateOptions{})
	must(a.t, err)
	_, err = a.admin.RbacV1().ClusterRoleBindings().Create(a.t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbac.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
		Subjects: []rbac.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: a.name}}}, metav1.CreateOptions{})
	must(a.t, err)
}

// grant grants or revokes the right to read namespace kube-system, and waits until the API server knows.
func (a *account) grant(yes bool) {
	a.t.Helper()
	role := a.name + "-kube-system"
	if yes {
		a.bind(role, rbac.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}})
	} else {
		must(a.t, a.admin.RbacV1().ClusterRoleBindings().Delete(a.t.Context(), role, metav1.DeleteOptions{}))
		must(a.t, a.admin.RbacV1().ClusterRoles().Delete(a.t.Context(), role, metav1.DeleteOptions{}))
	}
	a.await("get", "namespaces", "kube-system", yes)
}

func (a *account) await(verb, resource, name string, want bool) {
	a.t.Helper()
	review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Resource: resource, Name: name}}}
	Await(a.t, fmt.Sprintf("%s %s %s to be %v", verb, resource, name, want), func() (bool, error) {
		answer, err := a.client.AuthorizationV1().SelfSubjectAccessReviews().Create(context.Background(), review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == want, err
	})
}

// withAnotherCA returns the kubeconfig with one more trusted authority, as during the replacement of a CA.
func withAnotherCA(t *testing.T, kubeconfig string) string {
	t.Helper()
	c, err := clientcmd.LoadFromFile(kubeconfig)
	must(t, err)
	cluster := c.Clusters[servers.ContextName]
	old, err := os.ReadFile(cluster.CertificateAuthority)
	must(t, err)
	_, another := servers.Certified(t)
	cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", append(old, another...)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*c, path))
	return path
}
