package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/change"
)

func TestAResourceIsFoundByItsPlural(t *testing.T) {
	known := []string{"deployments.apps", "events", "events.events.k8s.io", "pods", "widgets.a.example.com", "widgets.b.example.com"}
	for name, want := range map[string]string{
		"pods": "pods", "deployments": "deployments.apps", "deployments.apps": "deployments.apps", "events": "events",
		"deploymentz": "did you mean deployments.apps?", "podz": "did you mean pods?", "nodes": "it has deployments.apps, events",
		"widgets": "may be widgets.a.example.com or widgets.b.example.com",
	} {
		got, err := resourceNamed(name, known, "the log has no")
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A stream is named by its id, or by its resource, whose group may be left out if no other resource has the name.
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
		if text := strings.Join(got, " "); text != want && (err == nil || !strings.Contains(text, want) || exitCode(err) != exitSettings) {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
}

// A command that only asks makes no checkpoint where there is none.
func TestAskingMakesNoCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.db")
	s := start(t, "forget", kubeconfig(t, identified(t), "", ""), "KUBECDC_CHECKPOINT=sqlite:"+path)
	s.wantFailure(t, "there is no checkpoint file "+path)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it made the file: %v", err)
	}
}
