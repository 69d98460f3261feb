package suggest_test

import (
	"strings"
	"testing"

	"kubecdc/internal/suggest"
)

func TestAResourceIsFoundByItsPlural(t *testing.T) {
	known := []string{"deployments.apps", "events", "events.events.k8s.io", "pods", "widgets.a.example.com", "widgets.b.example.com"}
	for name, want := range map[string]string{
		"pods": "pods", "deployments": "deployments.apps", "deployments.apps": "deployments.apps", "events": "events",
		"deploymentz": "did you mean deployments.apps?", "podz": "did you mean pods?", "nodes": "it has deployments.apps, events",
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
