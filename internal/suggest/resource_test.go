package suggest_test

import (
	"strings"
	"testing"

	"kubecdc/internal/suggest"
)

func TestAResourceIsFoundAsKubectlNamesIt(t *testing.T) {
	known := []string{"deployments.apps", "deployments.example.com", "events.events.k8s.io", "events", "ingresses.networking.k8s.io",
		"networkpolicies.networking.k8s.io", "pods", "widgets.a.example.com", "widgets.b.example.com"}
	for name, want := range map[string]string{
		"pods": "pods", "pod": "pods", "Pod": "pods", "po": "pods", "pods.v1": "pods", "deploy": "deployments.apps", "events": "events",
		"deployments.apps": "deployments.apps", "deployment.v1.apps": "deployments.apps", "deploy.example.com": "deployments.example.com",
		"deployment": "may be deployments.apps or deployments.example.com", "ev": "events", "event.events.k8s.io": "events.events.k8s.io",
		"ingress": "ingresses.networking.k8s.io", "netpol": "networkpolicies.networking.k8s.io", "widget.b.example.com": "widgets.b.example.com",
		"networkpolicy": "networkpolicies.networking.k8s.io", "svc": "it has", "p": "it has", "pods.apps": "it has", "": "it has",
		"deploymentz": "did you mean deployments.", "podz": "did you mean pods?", "nodes": "it has deployments.apps, ",
		"widgets": "may be widgets.a.example.com or widgets.b.example.com",
	} {
		ids, err := suggest.Resources([]string{name}, known, "the log has no")
		got := strings.Join(ids, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
