package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// readConfigMaps is a role that may read. The built-in roles are filled by a controller, and none runs here.
func readConfigMaps(t *testing.T, client kubernetes.Interface, more ...string) rbacv1.RoleRef {
	t.Helper()
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "read-configmaps"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: append(more, "configmaps"), Verbs: []string{"get", "list", "watch"}}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "read-configmaps"}
}

// grantReader lets the user reader read ConfigMaps, and more resources of the core group.
func grantReader(t *testing.T, client kubernetes.Interface, more ...string) {
	t.Helper()
	must[*rbacv1.ClusterRoleBinding](t)(client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: readConfigMaps(t, client, more...),
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "reader"}}}, metav1.CreateOptions{}))
}

// In the middle of a recovery the ClusterRoleBinding is deleted, and made again once reads are refused, as Helm does. No change is lost
// that the server still has.
func TestARecoveryOutlivesARefusal(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	client := kubernetes.NewForConfigOrDie(k.Config)
	grantReader(t, client)
	g := newGateway(t, k.UserConfig(k.Address, servers.Reader.Token))
	l, w := newLedger(), newWriter(t, k.Config, 13, []string{"default", "kube-public"})
	startOn(t, g.config(), testOptions(), l, &quietObserver{})
	l.awaitStarted(t)
	begin := position(l)
	g.hold()
	w.run(180)
	withdrawn, refused, again := sync.Once{}, 0, make(chan struct{})
	g.mu.Lock()
	g.reading = func(n int) {
		withdrawn.Do(func() {
			mustDo(t, client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader", metav1.DeleteOptions{}))
		})
	}
	g.answered = func(exact bool, status int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if status == http.StatusForbidden && exact {
			if refused++; refused == 3 {
				close(again)
			}
		}
	}
	g.mu.Unlock()
	g.release(true)
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	select {
	case <-again:
	case <-late.Done(): // a recovery that has given up
		t.Error("after one or two refusals nothing more is read of the past")
	}
	grantReader(t, client)
	want := etcdSays(t, k, begin)
	l.awaitPosition(t, want[len(want)-1][strings.Index(want[len(want)-1], "@")+1:])
	equalLogs(t, logSays(l.changes), want)
	if gap := onlyGap(t, l); !gap.Complete || gap.Recovered != 180 {
		t.Errorf("gap record %+v, want 180 recovered changes and nothing missing", gap)
	}
}

func TestPermissionWithdrawnAndGivenBack(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	client := kubernetes.NewForConfigOrDie(k.Config)
	grant := func() { grantReader(t, client) }
	proxy := newProxy(t, k.Address)
	w := newWriter(t, k.Config, 9, []string{"default"})
	l, o := newLedger(), &quietObserver{}
	options := testOptions()
	options.MaxBackoff = time.Second
	startOn(t, k.UserConfig(proxy.Address, servers.Reader.Token), options, l, o)
	o.awaitError(t, apierrors.IsForbidden)
	l.awaitRefusals(t, change.ControlStreamError)
	grant()
	l.awaitStarted(t)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered)
	from := position(l)
	w.run(5)
	mustDo(t, client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader", metav1.DeleteOptions{}))
	o.forget()
	servers.Await(t, "the API server to notice", func() (bool, error) {
		if o.saw(apierrors.IsForbidden) {
			return true, nil
		}
		proxy.Drop()
		time.Sleep(300 * time.Millisecond) // the stream connects again
		return false, nil
	})
	w.run(10)
	o.awaitError(t, apierrors.IsForbidden)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered, change.ControlStreamError)
	if !o.was(change.StateRefused) {
		t.Error("a refused stream is not called so")
	}
	refusal := l.refusals()[2]
	if !strings.Contains(refusal.Cause, "forbidden") || string(refusal.ResourceVersion) != fmt.Sprint(position(l)) || refusal.SinceMs == 0 {
		t.Errorf("the refusal is reported as %+v", refusal)
	}
	o.forget()
	for range 3 { // more of them are not told
		o.awaitError(t, apierrors.IsForbidden)
		o.forget()
	}
	grant()
	want := etcdSays(t, k, from)
	l.awaitPosition(t, want[len(want)-1][strings.Index(want[len(want)-1], "@")+1:])
	equalLogs(t, logSays(l.changes), want)
	l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered, change.ControlStreamError, change.ControlStreamRecovered)
}

// refusals are the control records of refusals.
func (l *ledger) refusals() (all []change.Control) {
	_, controls := l.snapshot()
	for _, c := range controls {
		if c.Type == change.ControlStreamError || c.Type == change.ControlStreamRecovered {
			all = append(all, c)
		}
	}
	return all
}

// awaitRefusals waits for as many, and demands that they are these.
func (l *ledger) awaitRefusals(t *testing.T, want ...change.ControlType) {
	t.Helper()
	var got []change.ControlType
	servers.Await(t, fmt.Sprintf("refusals that are told as %q", want), func() (bool, error) {
		got = nil
		for _, c := range l.refusals() {
			got = append(got, c.Type)
		}
		return len(got) >= len(want), nil
	})
	if !slices.Equal(got, want) {
		t.Fatalf("of refusals the log says %q, want %q", got, want)
	}
}

func (q *quietObserver) saw(matches func(error) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, err := range q.errs {
		if matches(err) {
			return true
		}
	}
	return false
}

func (q *quietObserver) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.errs = nil
}

func (q *quietObserver) awaitError(t *testing.T, matches func(error) bool) {
	t.Helper()
	servers.Await(t, "the error to be reported", func() (bool, error) { return q.saw(matches), nil })
}

// A token becomes invalid, and a new one is written to the file (or given by the plugin). The stream goes on.
func TestCredentialsThatExpireAreReadAnew(t *testing.T) {
	k, ns := servers.Kube(t), servers.Namespace(t)
	client := kubernetes.NewForConfigOrDie(k.Config)
	account := func(t *testing.T, name string) string {
		t.Helper()
		must[*corev1.ServiceAccount](t)(client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		token := must[*authv1.TokenRequest](t)(client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authv1.TokenRequest{}, metav1.CreateOptions{}))
		return token.Status.Token
	}
	must[*rbacv1.RoleBinding](t)(client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:  readConfigMaps(t, client),
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "system:serviceaccounts:" + ns}}}, metav1.CreateOptions{}))
	for _, kind := range []string{"file", "plugin"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "token")
			write := func(token string) {
				text := token
				if kind == "plugin" {
					text = fmt.Sprintf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":%q}}`, token)
				}
				mustDo(t, os.WriteFile(file, []byte(text), 0o600))
			}
			write(account(t, kind+"-old"))
			proxy := newProxy(t, k.Address)
			config := k.UserConfig(proxy.Address, "")
			if config.BearerTokenFile = file; kind == "plugin" {
				config.BearerTokenFile = ""
				config.ExecProvider = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{file},
					InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
			}
			l, o := newLedger(), &quietObserver{}
			options := testOptions()
			options.MaxBackoff = time.Second
			startStream(t, config, change.NewStream(configMaps, ns, "", ""), options, l, o)
			l.awaitStarted(t)
			mustDo(t, client.CoreV1().ServiceAccounts(ns).Delete(t.Context(), kind+"-old", metav1.DeleteOptions{}))
			servers.Await(t, "the old token to be refused", func() (bool, error) { // the API server remembers tokens for ten seconds
				proxy.Drop()
				time.Sleep(300 * time.Millisecond)
				return o.saw(apierrors.IsUnauthorized), nil
			})
			must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps(ns).Create(context.Background(), configMap(kind, nil), metav1.CreateOptions{}))
			write(account(t, kind+"-new"))
			l.await(t, "the change", func() bool { _, found := l.objects[ns+"/"+kind]; return found })
		})
	}
}
