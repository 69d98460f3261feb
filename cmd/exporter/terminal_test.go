package main

import (
	"context"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/child"
	"kubecdc/test/e2e"
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
	program := os.Args[0]
	if other := os.Getenv("CAPTURE"); other != "" {
		program = other
	}
	s := &terminal{Cmd: exec.Command(program, args...), ended: make(chan error, 1)}
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

// screen is what the terminal has shown, without colours: a line that was erased or written over is gone.
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
		at := steering.FindStringIndex(text)
		if at == nil {
			write(text)
			return strings.Join(append(lines, string(line)), "\n")
		}
		write(text[:at[0]])
		switch code := text[at[0]:at[1]]; {
		case strings.HasSuffix(code, "\n"):
			lines, line, column = append(lines, strings.TrimRight(string(line), " ")), nil, 0
		case code == "\r":
			column = 0
		case strings.HasSuffix(code, "K"):
			line = line[:min(column, len(line))]
		case strings.HasSuffix(code, "2J"):
			lines, line, column = nil, nil, 0
		}
		text = text[at[1]:]
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

// story makes objects that a new user would look at.
func story(t *testing.T, kube *servers.Kubernetes, namespace string) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(kube.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	labels := map[string]string{"app": "web"}
	_, err1 := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	replicas := int32(2)
	_, err2 := client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}}}, metav1.CreateOptions{FieldManager: "kubectl"})
	for _, err := range []error{err1, err2} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return client
}

func scale(t *testing.T, client *kubernetes.Clientset, namespace, patch string) {
	t.Helper()
	_, err := client.AppsV1().Deployments(namespace).Patch(context.Background(), "web", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "alice"})
	if err != nil {
		t.Fatal(err)
	}
}

// The first five minutes of a new user.
func TestATerminalShowsWhatMatters(t *testing.T) {
	kube := servers.Kube(t)
	namespace := servers.UniqueName()[:9]
	client := story(t, kube, namespace)
	env := []string{"KUBECONFIG=" + kube.Kubeconfig, "XDG_STATE_HOME=" + t.TempDir(), "HOME=" + t.TempDir(), "KUBECDC_LISTEN=127.0.0.1:0"}
	early := onTerminal(t, 80, env, "history", "deploy")
	t.Logf("before the first run: exit code %d\n%s", early.wait(t), early.screen())
	run := onTerminal(t, 80, env, "run")
	run.shows(t, `following \d+ resources`)
	scale(t, client, namespace, `{"spec":{"replicas":5}}`)
	scale(t, client, namespace, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":1}"}},"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	run.shows(t, `updated.*web|~ deploy/web`)
	t.Logf("run\n%s", run.screen())
	for _, line := range []string{"history deploy web -n " + namespace, "diff --from 1m deploy -n " + namespace, "tail -n 5 --follow=false", "tail -n 5 --follow=false -o diff",
		"state deploy -n " + namespace, "status", "history web2 -n " + namespace, "history deploy web2", "history po/web", "status -o wide", "man", "get deploy", "history --reverse", "start", "logs"} {
		c := onTerminal(t, 80, env, strings.Fields(line)...)
		t.Logf("$ exporter %s: exit code %d\n%s", line, c.wait(t), c.screen())
	}
	_ = run.Process.Signal(syscall.SIGINT)
	run.wait(t)
	t.Logf("run\n%s", run.screen())
}

// A cluster that is made again under the same name, as with kind, begins a log of its own. The old one can still be asked.
func TestAClusterMadeAgainBeginsALogOfItsOwn(t *testing.T) {
	first, second := servers.Kube(t), servers.Lend(t)
	story(t, first, "old-shop")
	story(t, second, "new-shop")
	home := t.TempDir()
	env := func(kubeconfig string) []string {
		return []string{"KUBECONFIG=" + kubeconfig, "XDG_STATE_HOME=" + home, "HOME=" + home, "KUBECDC_LISTEN=127.0.0.1:0", "KUBECDC_RESOURCES=deployments.apps"}
	}
	for i, kube := range []*servers.Kubernetes{first, second} {
		run := onTerminal(t, 200, env(kube.Kubeconfig), "run")
		run.shows(t, `following 1 resources`)
		if again := strings.Contains(run.screen(), "an earlier cluster of this name has a log of its own"); again != (i == 1) {
			t.Errorf("run %d shows %s", i, run.screen())
		}
		_ = run.Process.Signal(syscall.SIGINT)
		if code := run.wait(t); code != 0 {
			t.Errorf("run %d: exit code %d: %s", i, code, run.screen())
		}
	}
	gone := kubeconfigOf(t, first, "https://127.0.0.1:1")
	for _, c := range []struct {
		kubeconfig, line, want string
		code                   int
	}{
		{first.Kubeconfig, "history deploy web -n old-shop", `deploy/web -n old-shop .*\ncomplete since`, 0},
		{second.Kubeconfig, "history deploy web -n new-shop", `deploy/web -n new-shop .*\ncomplete since`, 0},
		{second.Kubeconfig, "history deploy web -n old-shop", `no such change`, 1},
		{second.Kubeconfig, "history deploy web -n old-shop --cluster kubecdc-test", `deploy/web -n old-shop .*\ncomplete since`, 0},
		{gone, "history deploy web -n new-shop", `newest of 2 logs of its name, of cluster kubecdc-test@[0-9a-f]{8} (.*\n)+.*deploy/web -n new-shop`, 0},
		{gone, "logs", `kubecdc-test@[0-9a-f]{8} .*\nkubecdc-test `, 0},
	} {
		asked := onTerminal(t, 200, env(c.kubeconfig), strings.Fields(c.line)...)
		if code := asked.wait(t); code != c.code || !regexp.MustCompile(c.want).MatchString(asked.screen()) {
			t.Errorf("exporter %s: exit code %d, want %d and %s\n%s", c.line, code, c.code, c.want, asked.screen())
		}
	}
}

// kubeconfigOf returns a kubeconfig with another address of the API server.
func kubeconfigOf(t *testing.T, kube *servers.Kubernetes, server string) string {
	t.Helper()
	text, err := os.ReadFile(kube.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), kube.Config.Host, server)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
