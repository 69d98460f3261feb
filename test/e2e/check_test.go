package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

// A check names every missing right at once, distinguishes warnings from failures, and says how to grant the rights.
func TestCheckNamesEveryMissingRight(t *testing.T) {
	t.Parallel()
	a := newAccount(t, servers.Kube(t))
	c := Command(t, map[string]string{"KUBECONFIG": a.kubeconfig, "KUBECDC_CLUSTER": "checked", "KUBECDC_RESOURCES": "configmaps,pods",
		"XDG_STATE_HOME": t.TempDir()}, "check", "-o", "json")
	out, err := c.Output()
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d (%v)", c.ProcessState.ExitCode(), err)
	}
	var findings []struct{ Check, State, Message string }
	must(t, json.Unmarshal(out, &findings))
	for _, want := range []struct{ state, text string }{
		{"warning", "the cluster is known by its CA alone"},
		{"FAILED", "not allowed: list pods, watch pods"},
		{"warning", "get customresourcedefinitions.apiextensions.k8s.io, list apiservices.apiregistration.k8s.io: if a resource is removed"},
		{"warning", "watch apiservices.apiregistration.k8s.io: a resource that is installed"},
		{"warning", "list leases.coordination.k8s.io: a gap takes several times as many requests"},
	} {
		if !slices.ContainsFunc(findings, func(f struct{ Check, State, Message string }) bool {
			return f.State == want.state && strings.Contains(f.Message, want.text) && strings.Contains(f.Message, "exporter rbac --name "+a.name+" --namespace default")
		}) {
			t.Errorf("no %s %q with what grants it in\n%s", want.state, want.text, out)
		}
	}
	if strings.Contains(string(out), "configmaps") {
		t.Errorf("it misses a right that is there:\n%s", out)
	}
}

// A check names everything that run could not export and would only log. Examples are selectors that the API server does not support, and
// namespaces that do not exist.
func TestCheckSaysWhatWouldNotBeExported(t *testing.T) {
	env := func(name, value string) map[string]string {
		return withSettings(map[string]string{"KUBECONFIG": servers.Kube(t).Kubeconfig, "KUBECDC_CLUSTER": "checked", "XDG_STATE_HOME": t.TempDir(),
			"KUBECDC_RESOURCES": "configmaps,pods,secrets", "KUBECDC_NAMESPACES": "default"}, name, value)
	}
	for _, test := range []struct {
		code  int
		wants []string
		env   map[string]string
	}{
		{0, []string{"3 to export"}, env("KUBECDC_FIELD_SELECTOR", "metadata.name!=web")},
		{1, []string{"FAILED", "KUBECDC_FIELD_SELECTOR", "configmaps, secrets", "!configmaps,!secrets"}, env("KUBECDC_FIELD_SELECTOR", "spec.nodeName=a")},
		{0, []string{"there is no namespace dfault, shpo", "3 to export"}, env("KUBECDC_NAMESPACES", "default,dfault,shpo")},
		{0, []string{"warning", "KUBECDC_SLOTS is above 1"}, env("KUBECDC_SLOTS", "2")},
	} {
		code, out := command(t, test.env, "check")
		for _, want := range test.wants {
			if code != test.code || !strings.Contains(out, want) {
				t.Errorf("exporter check ends with %d and lacks %q:\n%s", code, want, out)
			}
		}
	}
}

// While an exporter runs, check reads the file that has both the log and the checkpoint, and does not change it.
func TestCheckWhileAnExporterRuns(t *testing.T) {
	env := map[string]string{"KUBECONFIG": servers.Kube(t).Kubeconfig, "KUBECDC_CLUSTER": "checked", "XDG_STATE_HOME": t.TempDir(),
		"KUBECDC_RESOURCES": "configmaps"}
	e := StartExporter(t, "the exporter", env).AwaitReady(t)
	code, out := command(t, env, "check")
	if code != 0 || !strings.Contains(out, "sink         ok") || strings.Contains(out, "warning") {
		t.Errorf("exporter check ends with %d:\n%s", code, out)
	}
	e.stop(t)
}
