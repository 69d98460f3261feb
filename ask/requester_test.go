package ask

import (
	"strings"
	"testing"

	"kubecdc/change"
)

// A stream is named by its id or by its resource. The resource's group may be omitted if no other resource has the name.
func TestStreamsAreFoundByTheirPlural(t *testing.T) {
	var known []change.Position
	for _, id := range []change.StreamID{"deployments.apps@a", "deployments.apps@b", "events", "events.events.k8s.io", "pods?labels=x=y",
		"widgets.a.example.com", "widgets.b.example.com"} {
		known = append(known, change.Position{Stream: id})
	}
	for name, want := range map[string]string{
		"deployments": "deployments.apps@a deployments.apps@b", "deployments.apps": "deployments.apps@a deployments.apps@b",
		"deployments@b": "deployments.apps@b", "deployments.apps@a": "deployments.apps@a", "events": "events", "pods": "pods?labels=x=y",
		"pods?labels=x=y": "pods?labels=x=y", "deployments@c": "has no stream \"deployments@c\"", "podz": "did you mean pods",
		"widgets": "may be widgets.a.example.com or widgets.b.example.com", "widgets.a.example.com": "widgets.a.example.com",
	} {
		found, err := streamsNamed(name, known)
		var got []string
		for _, p := range found {
			got = append(got, string(p.Stream))
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, " "); text != want && (err == nil || !strings.Contains(text, want)) {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
}
