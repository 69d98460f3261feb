package deploy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"kubecdc/internal/wait"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// The chart serves the past to the team. Its containers run with what kubelet gives them. kubectl gets what the bearer of its token may
// read now.
func TestTheTeamAsksThePast(t *testing.T) {
	kube := servers.Kube(t)
	database := servers.Database(t)
	for sink, values := range map[string][]string{
		"kafka": {"--set=secret.KUBECDC_CHECKPOINT=" + servers.Database(t), "--set=config.KUBECDC_KAFKA_TOPIC_PREFIX=" + servers.UniqueName(),
			"--set=config.KUBECDC_KAFKA_BROKERS=" + strings.Join(servers.SharedKafka(t).Brokers, `\,`)},
		"postgres": {"--set=secret.KUBECDC_CHECKPOINT=" + database, "--set=secret.KUBECDC_SINK_POSTGRES=" + database},
		"sqlite":   nil,
	} {
		t.Run(sink, func(t *testing.T) {
			ns := "past-" + sink
			admin := clientset(t, kube.Config)
			restricted(t, admin, ns)
			objects := render(t, ns, append(values, "--set=fullnameOverride="+ns, "--set=config.KUBECDC_SINK="+sink,
				"--set=config.KUBECDC_RESOURCES=configmaps", "--set-string=config.KUBECDC_LISTEN=off",
				"--set=serve.enabled=true,serve.tlsSecret=past-tls,networkPolicy.enabled=true")...)
			if sink != "sqlite" {
				wantReviewsAlone(t, objects)
			}
			apply(t, kube.Config, objects)
			wantAdmitted(t, admin, objects)
			w := &installed{objects: objects, kube: kube, admin: admin, roots: map[string]string{}, tls: t.TempDir()}
			w.certificate(t, ns+"-serve."+ns+".svc")
			w.start(t, "exporter")
			served := w.start(t, "serve")
			team := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
			_, err := admin.CoreV1().ServiceAccounts(ns).Create(t.Context(), team, metav1.CreateOptions{})
			must(t, err)
			mayView(t, admin, ns, "team")
			token := accountToken(t, admin, ns, "team")
			address := ""
			e2e.Await(t, "exporter serve to listen", func() (bool, error) {
				address, _, _ = strings.Cut(regexp.MustCompile(`https://127.0.0.1:\d+/at/`).FindString(served.String()), "/at/")
				return address != "", nil
			})
			kubectl := func(args ...string) string {
				c := exec.CommandContext(t.Context(), servers.Kubectl(t), append(args, "--kubeconfig=/dev/null", "--server="+address,
					"--certificate-authority="+filepath.Join(w.tls, "tls.crt"), "--tls-server-name="+ns+"-serve."+ns+".svc", "--token="+token)...)
				out, _ := c.CombinedOutput()
				return string(out)
			}
			e2e.Await(t, "the settings in the past", func() (bool, error) {
				return strings.Contains(kubectl("get", "configmaps", "-n", ns), "\n"+ns+" "), nil
			})
			if out := kubectl("get", "configmaps", "-A"); !strings.Contains(out, "Forbidden") {
				t.Errorf("who may read one namespace reads all:\n%s", out)
			}
			e2e.Await(t, "it to be ready", func() (bool, error) { return strings.HasPrefix(kubectl("get", "--raw", "/readyz"), "ok"), nil })
			if out := kubectl("get", "--raw", "/metrics"); sink == "kafka" && !strings.Contains(out, "Forbidden") {
				t.Errorf("who may read one namespace reads metrics:\n%s", out)
			}
			if strings.Contains(served.String(), "WARN") {
				t.Errorf("it warns:\n%s", served)
			}
		})
	}
}

// wantReviewsAlone demands that the account of exporter serve has the rights of system:auth-delegator, and may find out the cluster's name.
func wantReviewsAlone(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	own := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !strings.HasSuffix(o.GetName(), "-serve") })
	want := map[string]bool{"get namespaces kube-system": true, "create tokenreviews.authentication.k8s.io": true,
		"create subjectaccessreviews.authorization.k8s.io": true}
	if got := rightsIn(t, own); !maps.Equal(got, want) {
		t.Errorf("exporter serve may %v, want %v", got, want)
	}
}

// mayView lets an account read the ConfigMaps of its namespace.
func mayView(t *testing.T, admin *kubernetes.Clientset, ns, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := admin.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: name}}}, metav1.CreateOptions{})
	must(t, err)
}

// installed is a release whose containers run here.
type installed struct {
	objects []*unstructured.Unstructured
	kube    *servers.Kubernetes
	admin   *kubernetes.Clientset
	roots   map[string]string // the file systems of Pods, by their accounts
	tls     string            // the folder with the Secret for TLS
}

// certificate makes a certificate of a Service, which is its own authority.
func (w *installed) certificate(t *testing.T, host string) {
	t.Helper()
	crt, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(w.tls, "tls.crt"), crt, 0o644))
	must(t, os.WriteFile(filepath.Join(w.tls, "tls.key"), key, 0o644))
}

// start runs a container in the file system of its Pod, and returns what it writes. The Pod's port is another one here.
func (w *installed) start(t *testing.T, name string) *child.Output {
	t.Helper()
	for _, d := range all[appsv1.Deployment](t, w.objects, "Deployment") {
		spec := d.Spec.Template.Spec
		i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		root := w.roots[spec.ServiceAccountName]
		if root == "" {
			root = podRoot(t, w.kube, accountToken(t, w.admin, d.Namespace, spec.ServiceAccountName))
			w.roots[spec.ServiceAccountName] = root
		}
		for _, m := range spec.Containers[i].VolumeMounts {
			if m.Name != "serve-tls" {
				volume(t, root, m.MountPath)
				continue
			}
			must(t, os.CopyFS(filepath.Join(root, m.MountPath), os.DirFS(w.tls)))
		}
		args := strings.Split(strings.ReplaceAll(strings.Join(spec.Containers[i].Args, " "), "=:8443", "=127.0.0.1:0"), " ")
		env := append(podEnvironment(t, w.kube), environmentOf(t, spec.Containers[i], w.objects)...)
		return kubelet(t, func() *exec.Cmd {
			c := container(t, root, args...)
			c.Env = env
			return c
		})
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

// kubelet runs a container until the test ends, and starts it again if it ends before, as one does that finds no log yet.
func kubelet(t *testing.T, command func() *exec.Cmd) *child.Output {
	t.Helper()
	said, ended := &child.Output{}, make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c := command()
			c.Stdout, c.Stderr = said, said
			process, err := child.Start(c)
			if err != nil {
				fmt.Fprintln(said, err)
				return
			}
			select {
			case <-process.Done():
				_ = wait.For(ctx, time.Second)
			case <-ctx.Done():
				process.Kill()
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("it said:\n%s", said)
		}
	})
	return said
}
