package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	appsv1 "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/internal/screen"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/require"
	"kubecdc/test/servers"
)

// terminal is a program on a terminal.
type terminal struct {
	*exec.Cmd
	file  *os.File
	mu    sync.Mutex
	text  []byte
	ended chan error
}

// onTerminal starts a command line of the exporter on a terminal of some columns.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	s := &terminal{Cmd: exec.Command(os.Args[0], args...), ended: make(chan error, 1)}
	s.Env = append(append(child.Environ(), "TEST_AS_EXPORTER=1", "TERM=xterm-256color", "TZ=UTC"), env...)
	var err error
	if s.file, err = pty.StartWithSize(s.Cmd, &pty.Winsize{Rows: 40, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := s.file.Read(buffer)
			s.mu.Lock()
			s.text = append(s.text, buffer[:n]...)
			s.mu.Unlock()
			if err != nil {
				s.ended <- s.Wait()
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		s.file.Close()
		if t.Failed() {
			t.Logf("exporter %s shows\n%s", strings.Join(args, " "), s.screen())
		}
	})
	return s
}

var steering = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\x1b\([A-Z0-9]|\r\n|[\r\n]`)

// screen returns what the terminal shows, without colours and without lines that were erased or overwritten.
func (s *terminal) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	line, column := []rune{}, 0
	write := func(text string) {
		for _, r := range text {
			if column < len(line) {
				line[column] = r
			} else {
				line = append(line, r)
			}
			column++
		}
	}
	text := string(s.text)
	for {
		found := steering.FindStringIndex(text)
		if found == nil {
			write(text)
			return strings.Join(append(lines, string(line)), "\n")
		}
		write(text[:found[0]])
		switch code := text[found[0]:found[1]]; {
		case strings.HasSuffix(code, "\n"):
			lines, line, column = append(lines, strings.TrimRight(string(line), " ")), nil, 0
		case code == "\r":
			column = 0
		case strings.HasSuffix(code, "K"):
			line = line[:min(column, len(line))]
		case strings.HasSuffix(code, "2J"):
			lines, line, column = nil, nil, 0
		}
		text = text[found[1]:]
	}
}

// shows waits until the terminal shows a pattern.
func (s *terminal) shows(t *testing.T, pattern string) {
	t.Helper()
	shown := regexp.MustCompile("(?m)" + pattern)
	e2e.Await(t, "the terminal to show "+pattern, func() (bool, error) { return shown.MatchString(s.screen()), nil })
}

// wait waits for the end, and returns the exit code.
func (s *terminal) wait(t *testing.T) int {
	t.Helper()
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	select {
	case <-s.ended:
		return s.ProcessState.ExitCode()
	case <-late.Done():
		t.Fatal("it does not end")
		return 0
	}
}

// makeObjects creates objects as a new user might have them.
func makeObjects(t *testing.T, kube *servers.Kubernetes, namespace string) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(kube.Config)
	must(t, err)
	ctx := context.Background()
	labels := map[string]string{"app": "web"}
	_, err1 := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	replicas := int32(2)
	_, err2 := client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}}}, metav1.CreateOptions{FieldManager: "kubectl"})
	for _, err := range []error{err1, err2} {
		must(t, err)
	}
	return client
}

func scale(t *testing.T, client *kubernetes.Clientset, manager, namespace, patch string) {
	t.Helper()
	_, err := client.AppsV1().Deployments(namespace).Patch(context.Background(), "web", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: manager})
	must(t, err)
}

// In the first five minutes of a new user, no line is wider than the terminal, and the terminal is not flooded.
func TestATerminalShowsWhatMatters(t *testing.T) {
	kube := servers.Kube(t)
	namespace := servers.UniqueName()[:9]
	client := makeObjects(t, kube, namespace)
	env := []string{"KUBECONFIG=" + kube.Kubeconfig, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0"}
	wantTerminal(t, env, asked{"history deploy", 1, `^exporter: there is no log of cluster kubecdc-test yet: start exporter run$`})
	run := onTerminal(t, 80, append(env, "KUBECDC_RESOURCES=*"), "run")
	run.shows(t, `^✓ following \d+ resources, [\d,]+ objects`)
	scale(t, client, "alice", namespace, `{"spec":{"replicas":5}}`)
	scale(t, client, "alice", namespace, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	run.shows(t, `\d ~ deploy/web -n `+namespace+`  spec.t\S*(…| "web:1" → "web:2")  by alice$`)
	if shown := run.screen(); strings.Count(shown, "\n") > 20 || strings.Contains(shown, "leases/") || !strings.Contains(shown, "exporter history --since 1h") {
		t.Errorf("run shows\n%s", shown)
	}
	change := `\d\d:\d\d:\d\d ~ deploy/web -n ` + namespace
	for _, c := range []asked{
		{"history deploy web -n " + namespace, 0, `^` + change + `  by alice\n  ~ spec.replicas: 2 → 5\n` + change +
			`  by alice\n  ~ spec.template.spec.containers\[web\].image: "web:1" → "web:2"\ncomplete since \d\d:\d\d:\d\d; times are UTC\n$`},
		{"history deploy web --all-fields -n " + namespace, 0, `last-applied-configuration`},
		{"history -n " + namespace, 0, `(?s)^\S+ … \d objects? found by first lists\n.*^` + change + `  by alice\n  ~ spec.replicas: 2 → 5\n.*^complete since \S+( times are UTC)?\n`},
		{"history -n " + namespace + "x", 1, `^exporter: the log has no namespace "` + namespace + `x": did you mean ` + namespace + `\?$`},
		{"state deploy -n " + namespace + "x", 1, `^exporter: the log has no namespace`},
		{"diff deploy/wbe --incomplete --from 1s -n " + namespace, 2, `(?s)^exporter: the log has no deployments.apps/wbe .*did you mean .*deploy/web -n `},
		{"history -n " + namespace + " --op d", 0, `^nothing changed in ` + namespace + `, of what is asked for\ncomplete since \S+ times are UTC$`},
		{"history -n " + namespace + " --op x", 2, `--op is "x", but must be c, u, d or r`},
		{"history --since 1m --until 2m -n " + namespace, 2, `--until 2m is before --since 1m`},
		{"history deploy web -o table -n " + namespace, 0, `^LOGGED +CHANGE`},
		{"history deploy web --since 1h --clock happened -n " + namespace, 0, `spec.replicas: 2 → 5`},
		{"tail -n 2 --follow=false deploy", 0, `^` + change + `  (spec.replicas 2 → 5  by alice|spec.repl\S*…  by alice  \(seen then.*)\n` +
			change + `  (spec.template.spec.\S+…  by alice|spec.t\S*…  by alice  \(seen then.*)\n`},
		{"tail -n 1 --follow=false -o diff deploy", 0, `^` + change + `  by alice\n  ~ spec.template`},
		{"tail -n 500 --follow=false --all lease", 0, `leases/`},
		{"state deploy -n " + namespace, 0, `^NAMESPACE +NAME +LAST CHANGE LOGGED\n` + namespace + ` +web +\d\d:\d\d:\d\d\ncomplete since`},
		{"get deploy -n " + namespace + " -o name", 0, `^deployments.apps/web$`},
		{"diff --from 1h deploy", 2, `(?s)the log has no complete list of it by then.*^all first lists had ended at \S+ ?\S*: ask about then, or later$`},
		{"status", 0, `^✓ kubecdc-test: all is well .*\n  ✓ \d+ streams, .*\n  log: [\d.]+ \wiB of 4.0 GiB since \d+ s\n(    about \S+ \wiB: \S+\n){3}  exporter \S+ owns 1 of 1 slots\n  apiserver up for`},
		{"history deploy web2", 1, `did you mean deploy/web -n ` + namespace + `\?`},
		{"history web", 2, `there is no TYPE "web": did you mean deploy/web -n ` + namespace + `\?`},
		{"history po/web", 1, `no such change of pods/web\n.*did you mean deploy/web -n `},
		{"start", 2, `did you mean run\?`},
		{"tail --reverse", 2, `did you mean exporter tail -n 20, which has the newest changes\?`},
		{"__complete history deploy ", 0, `^web$`},
		{"__complete history de", 0, `(?s)^deploy$.*^deployments.apps$`},
		{"__complete history deploy -n " + namespace[:6], 0, `^` + namespace + `$`},
	} {
		wantTerminal(t, env, c)
	}
	must(t, run.Process.Signal(syscall.SIGINT))
	if code := run.wait(t); code != 0 || !strings.Contains(run.screen(), "stopped; all that was read is in the sink") {
		t.Errorf("exit code %d\n%s", code, run.screen())
	}
	wantTerminal(t, env, asked{"status", 1, `^✕ kubecdc-test: \d+ wrong`})
	run = onTerminal(t, 80, append(env, "KUBECDC_SINK=stdout", "KUBECDC_RESOURCES=deployments.apps"), "run")
	run.shows(t, `^✓ following 1 resource,`)
	scale(t, client, "bob", namespace, `{"spec":{"replicas":6}}`) // a second change of a field by alice within a second would have no manager
	run.shows(t, `^`+change+`  spec.replicas \d+ → \d+  by bob$`)
}

// asked is a command line, its exit code, and what a terminal of 80 columns shows.
type asked struct {
	line string
	code int
	want string
}

// late is a remark on changes, which an exporter on a loaded machine may see late.
var late = regexp.MustCompile(`  \(seen then[^\n]*`)

func wantTerminal(t *testing.T, env []string, c asked) {
	t.Helper()
	args := strings.Fields(c.line)
	if strings.HasSuffix(c.line, " ") {
		args = append(args, "")
	}
	s := onTerminal(t, 80, env, args...)
	code, shown := s.wait(t), s.screen()
	want := regexp.MustCompile("(?m)" + c.want)
	if code != c.code || !want.MatchString(shown) && !want.MatchString(late.ReplaceAllString(shown, "")) {
		t.Errorf("exporter %s: exit code %d, want %d and %s\n%s", c.line, code, c.code, c.want, shown)
	}
	for line := range strings.Lines(shown) {
		if width := screen.Width(strings.TrimSpace(line)); code == 0 && width > 80 && !strings.Contains(c.line, "-o ") && !strings.HasPrefix(c.line, "__") {
			t.Errorf("exporter %s shows %d columns: %s", c.line, width, line)
		}
	}
}

// Resources that can't be read are one line, without a warning for each. What to do about it can be copied.
func TestRightsForAFewResourcesAreOneLine(t *testing.T) {
	kube := servers.Kube(t)
	config, err := clientcmd.LoadFromFile(kube.Kubeconfig)
	must(t, err)
	user := servers.UniqueName()
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	client, err := kubernetes.NewForConfig(kube.Config)
	must(t, err)
	may := &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbac.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "services", "deployments"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}}}
	_, err1 := client.RbacV1().ClusterRoles().Create(t.Context(), may, metav1.CreateOptions{})
	_, err2 := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	run := onTerminal(t, 100, []string{"KUBECONFIG=" + path, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0"}, "run")
	run.shows(t, `^⚠ \d\d of \d\d resources can't be read with these rights; the others are exported\n.*exporter run --resources deployments.apps,pods,services\n.*exporter rbac --user `+user+` \|`)
	if shown := run.screen(); strings.Count(shown, "\n") > 20 || strings.Count(shown, "can't be read") != 1 {
		t.Errorf("run shows\n%s", shown)
	}
	_ = run.Process.Signal(syscall.SIGTERM)
	if code := run.wait(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, run.screen())
	}
	check := onTerminal(t, 100, []string{"KUBECONFIG=" + path, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir()}, "check")
	check.wait(t)
	if text := strings.Join(strings.Fields(check.screen()), " "); !strings.Contains(text, "exporter rbac --user "+user+" prints") || !strings.Contains(text, "not allowed: list ") {
		t.Errorf("check shows\n%s", text)
	}
	for line := range strings.Lines(check.screen()) {
		if screen.Width(strings.TrimSuffix(line, "\n")) > 100 {
			t.Errorf("wider than the terminal: %s", line)
		}
	}
}

// After a kill, changes and a restart of the API server, no watch can resume. That is one line, and the missed changes follow.
func TestAGapOfAllResourcesIsOneLine(t *testing.T) {
	kube := servers.Lend(t)
	client := makeObjects(t, kube, "shop")
	home := t.TempDir()
	env := []string{"KUBECONFIG=" + kube.Kubeconfig, "XDG_STATE_HOME=" + home, "HOME=" + home, "KUBECDC_LISTEN=127.0.0.1:0"}
	run := onTerminal(t, 80, env, "run")
	e2e.Await(t, "the log to have the first list", func() (bool, error) {
		return onTerminal(t, 80, env, "history", "deploy", "web", "-n", "shop").wait(t) == 0, nil
	})
	_ = run.Process.Kill()
	run.wait(t)
	scale(t, client, "alice", "shop", `{"spec":{"replicas":5}}`)
	must(t, client.AppsV1().Deployments("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	must(t, kube.RestartAPIServer(t.Context()))
	run = onTerminal(t, 120, env, "run")
	run.shows(t, `~ deploy/web -n shop  spec.replicas \d+ → 5  by alice  \(recovered\)$`)
	run.shows(t, ` - deploy/web -n shop  \(recovered\)$`)
	run.shows(t, `✓ 410: \d+ watches could not resume; recovered \d+ changes, none is missing$`)
	if shown := run.screen(); strings.Count(shown, "\n") > 20 {
		t.Errorf("run shows\n%s", shown)
	}
}

// A cluster that is created again under the same name, as with kind, begins a log of its own. The old log can still be read.
func TestAClusterMadeAgainBeginsALogOfItsOwn(t *testing.T) {
	first, second := servers.Kube(t), servers.Lend(t)
	old := servers.UniqueName()[:9] // the first cluster is shared
	makeObjects(t, first, old)
	makeObjects(t, second, "new-shop")
	home := t.TempDir()
	env := func(kubeconfig string) []string {
		return []string{"KUBECONFIG=" + kubeconfig, "XDG_STATE_HOME=" + home, "HOME=" + home, "KUBECDC_LISTEN=127.0.0.1:0", "KUBECDC_RESOURCES=deployments.apps"}
	}
	for i, kube := range []*servers.Kubernetes{first, second} {
		run := onTerminal(t, 200, env(kube.Kubeconfig), "run")
		run.shows(t, `following 1 resource,`)
		if again := strings.Contains(run.screen(), "another cluster of this name has a log of its own"); again != (i == 1) {
			t.Errorf("run %d shows %s", i, run.screen())
		}
		_ = run.Process.Signal(syscall.SIGINT)
		if code := run.wait(t); code != 0 {
			t.Errorf("run %d: exit code %d: %s", i, code, run.screen())
		}
	}
	gone := kubeconfigOf(t, first, first.Config.Host, "https://127.0.0.1:1")
	renamed := kubeconfigOf(t, second, "kubecdc-test", "elsewhere")
	again := onTerminal(t, 200, env(renamed), "run")
	again.shows(t, `this cluster has a log already, of another context: its name there is kubecdc-test@[0-9a-f]{8}`)
	again.shows(t, `following 1 resource,`)
	_ = again.Process.Signal(syscall.SIGINT)
	again.wait(t)
	for _, c := range []struct {
		kubeconfig, line, want string
		code                   int
	}{
		{first.Kubeconfig, "history deploy web -n " + old, `deploy/web -n ` + old + ` .*\ncomplete since`, 0},
		{second.Kubeconfig, "history deploy web -n new-shop", `deploy/web -n new-shop .*\ncomplete since`, 0},
		{second.Kubeconfig, "history deploy web -n " + old, `no such change`, 1},
		{second.Kubeconfig, "history deploy web --cluster kubecdc-test -n " + old, `deploy/web -n ` + old + ` .*\ncomplete since`, 0},
		{gone, "history deploy web -n new-shop", `newest of 2 logs of its name, of cluster kubecdc-test@[0-9a-f]{8} (.*\n)+.*deploy/web -n new-shop`, 0},
		{renamed, "history deploy web -n new-shop", `this cluster has a log already, of another context: .*\n(.*\n)*.*deploy/web -n new-shop`, 0},
		{gone, "logs", `kubecdc-test@[0-9a-f]{8} .*\nkubecdc-test `, 0},
	} {
		asked := onTerminal(t, 200, env(c.kubeconfig), strings.Fields(c.line)...)
		if code := asked.wait(t); code != c.code || !regexp.MustCompile(c.want).MatchString(asked.screen()) {
			t.Errorf("exporter %s: exit code %d, want %d and %s\n%s", c.line, code, c.code, c.want, asked.screen())
		}
	}
}

// kubeconfigOf returns a kubeconfig in which a text is another one.
func kubeconfigOf(t *testing.T, kube *servers.Kubernetes, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(kube.Kubeconfig)
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o600))
	return path
}

// A token that expires or is revoked is one problem, with what to do about it. With a new token in the kubeconfig file the
// exporter resumes.
func TestATokenThatExpiresIsOneProblem(t *testing.T) {
	kube := servers.Lend(t)
	client := makeObjects(t, kube, "shop")
	token := func(name string) string {
		t.Helper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err1 := client.CoreV1().ServiceAccounts("shop").Create(t.Context(), account, metav1.CreateOptions{})
		_, err2 := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbac.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: name}}}, metav1.CreateOptions{})
		made, err3 := client.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), name, &authentication.TokenRequest{}, metav1.CreateOptions{})
		must(t, errors.Join(err1, err2, err3))
		return made.Status.Token
	}
	config, err := clientcmd.LoadFromFile(kube.Kubeconfig)
	must(t, err)
	path, file := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "token")
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: file}
	}
	err1 := clientcmd.WriteToFile(*config, path)
	err2 := os.WriteFile(file, []byte(token("old")), 0o600)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	env := []string{"KUBECONFIG=" + path, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0"}
	run := onTerminal(t, 120, env, "run")
	run.shows(t, `following \d+ resources`)
	must(t, client.CoreV1().ServiceAccounts("shop").Delete(t.Context(), "old", metav1.DeleteOptions{}))
	kube.KillAPIServer()
	must(t, kube.StartAPIServer(t.Context()))
	run.shows(t, `^⚠ the API server refuses the credentials \(401\): .*\n.*renew the token`)
	scale(t, client, "alice", "shop", `{"spec":{"replicas":5}}`)
	must(t, os.WriteFile(file, []byte(token("new")), 0o600))
	run.shows(t, `~ deploy/web -n shop  spec.replicas`)
	run.shows(t, `✓ the API server accepts the credentials again$`)
	shown := run.screen()
	if _, since, _ := strings.Cut(shown, "following "); strings.Count(since, "\n") > 12 || strings.Count(shown, "nauthorized") > 1 {
		t.Errorf("run shows\n%s", shown)
	}
}

var must = require.NoError
