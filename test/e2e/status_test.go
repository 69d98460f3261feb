package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	rbac "k8s.io/api/rbac/v1"
)

// An account may read a part of the selection, and list nothing of the rest. The status says so, in the checkpoint too. A command
// on the same machine finds the running exporter by itself, and gets the problems from it.
func TestTheStatusHasWhatWasNeverListed(t *testing.T) {
	t.Parallel()
	w := NewFileWorld(t)
	account := newAccount(t, w.Kube)
	account.bind(account.name+"-nodes", rbac.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	state := t.TempDir()
	w.Env = w.With("KUBECONFIG", account.kubeconfig, "XDG_STATE_HOME", state, "KUBECDC_RESOURCES", "configmaps,nodes,secrets,services")
	wrong := func(text string) {
		t.Helper()
		if out, errors, code := offline(t, w.Env, "status"); code != 1 || !strings.Contains(out, "✕ streams: "+text) {
			t.Errorf("exit code %d, and no %q:\n%s%s", code, text, out, errors)
		}
	}
	addresses := func() []string {
		found, err := filepath.Glob(filepath.Join(state, "kubecdc", "*.address"))
		must(t, err)
		return found
	}

	e := StartExporter(t, "the exporter", w.Env)
	e.awaitWrong(t, "streams secrets, services: ", "forbidden")
	wrong("forbidden: ")
	out, _, code := offline(t, w.With("XDG_STATE_HOME", t.TempDir()), "status", "-o", "json")
	if code != 1 || strings.Count(out, "its first list is not complete") < 2 || !strings.Contains(out, `"secrets"`) || !strings.Contains(out, `"services"`) {
		t.Errorf("from the checkpoint: exit code %d\n%s", code, out)
	}

	e.Signal(syscall.SIGTERM)
	e.Wait(t)
	if left := addresses(); len(left) > 0 {
		t.Errorf("the exporter has left %v", left)
	}
	e = StartExporter(t, "the second exporter", w.Env)
	e.awaitWrong(t, "streams secrets, services: ", "forbidden")
	wrong("forbidden: ")
	e.Kill()
	<-e.Done()
	if left := addresses(); len(left) != 1 {
		t.Errorf("of a killed exporter there is %v", left)
	}
	wrong("its first list is not complete") // as the checkpoint has it
}

// wantLogSize demands that the exporter's status has the log's size, and the one that is made from the checkpoint.
func wantLogSize(t *testing.T, w *World, pattern string) {
	t.Helper()
	for _, env := range []map[string]string{w.Env, w.With("XDG_STATE_HOME", t.TempDir())} {
		Await(t, "the log's size", func() (bool, error) {
			return regexp.MustCompile(`(?m)^` + pattern).MatchString(mustRun(t, env, "status")), nil
		})
	}
}
