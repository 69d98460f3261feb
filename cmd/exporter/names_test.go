package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// A command that only asks makes no checkpoint where there is none.
func TestAskingMakesNoCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.db")
	s := start(t, "forget", kubeconfig(t, identified(t), "", ""), "KUBECDC_CHECKPOINT=sqlite:"+path)
	s.wantFailure(t, "there is no checkpoint file "+path)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it made the file: %v", err)
	}
}
