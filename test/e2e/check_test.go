package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

// A check names every missing right at once, tells warnings from failures, and says what grants them.
func TestCheckNamesEveryMissingRight(t *testing.T) {
	t.Parallel()
	a := newAccount(t, servers.Kube(t))
	c := Command(t, map[string]string{"KUBECONFIG": a.kubeconfig, "KUBECDC_CLUSTER": "checked", "KUBECDC_RESOURCES": "configmaps,pods",
		"XDG_STATE_HOME": t.TempDir(), "KUBECDC_LEASES": "kubernetes", "KUBECDC_LEASES_NAMESPACE": "ours"}, "check", "-o", "json")
	out, err := c.Output()
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d (%v)", c.ProcessState.ExitCode(), err)
	}
	var findings []struct{ Check, State, Message string }
	must(t, json.Unmarshal(out, &findings))
	for _, want := range []struct{ state, text string }{
		{"warning", "the cluster is known by its CA alone"},
		{"FAILED", "not allowed: list pods, watch pods"},
		{"FAILED", "not allowed in namespace ours: get leases.coordination.k8s.io, list leases.coordination.k8s.io, create "},
		{"warning", "get customresourcedefinitions.apiextensions.k8s.io, list apiservices.apiregistration.k8s.io: if a resource is removed"},
		{"warning", "watch apiservices.apiregistration.k8s.io: a resource that is installed"},
	} {
		if !slices.ContainsFunc(findings, func(f struct{ Check, State, Message string }) bool {
			return f.State == want.state && strings.Contains(f.Message, want.text) && strings.Contains(f.Message, "exporter rbac")
		}) {
			t.Errorf("no %s %q with what grants it in\n%s", want.state, want.text, out)
		}
	}
	if strings.Contains(string(out), "configmaps") {
		t.Errorf("it misses a right that is there:\n%s", out)
	}
}
