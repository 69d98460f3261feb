package main

import (
	"strings"
	"testing"
)

func TestAKubeconfigHasTheExactMoment(t *testing.T) {
	for moment, want := range map[string]string{"2025-10-26T02:30:00.75+02:00": "/at/2025-10-26T00:30:00.75Z", "2025-10-26T02:30:00+01:00": "/at/2025-10-26T01:30:00Z",
		"17": "/at/17", "0/3": "/at/checkpoint/0/3", "now": "8001"} {
		if code, out, stderr := exporter(t, "kubeconfig", "--at", moment); code != 0 || !strings.Contains(out, want+"\n") {
			t.Errorf("--at %s: %d\n%s%s", moment, code, out, stderr)
		}
	}
}
