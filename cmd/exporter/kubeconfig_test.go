package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/test/child"
)

func TestAKubeconfigHasTheExactMoment(t *testing.T) {
	for moment, want := range map[string]string{"2025-10-26T02:30:00.75+02:00": "/at/2025-10-26T00:30:00.75Z", "2025-10-26T02:30:00+01:00": "/at/2025-10-26T01:30:00Z",
		"17": "/at/17", "0/3": "/at/checkpoint/0/3", "now": "8001"} {
		if code, out, stderr := exporter(t, "kubeconfig", "--at", moment); code != 0 || !strings.Contains(out, want+"\n") {
			t.Errorf("--at %s: %d\n%s%s", moment, code, out, stderr)
		}
	}
}

// For a server with TLS a kubeconfig has the authority, and logs in as the present context does.
func TestAKubeconfigLogsIn(t *testing.T) {
	folder := t.TempDir()
	authority := filepath.Join(folder, "ca.crt")
	mustDo(t, os.WriteFile(authority, []byte("an authority"), 0o600))
	for user, want := range map[string]string{
		"token: secret": "token: secret",
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}": "command: login",
		"client-certificate: crt\n    client-key: key":                                                "# context here logs in with a client certificate",
	} {
		file := filepath.Join(folder, "kubeconfig")
		mustDo(t, os.WriteFile(file, []byte("kind: Config\napiVersion: v1\ncurrent-context: here\ncontexts:\n- name: here\n  context: {user: me, cluster: c}\n"+
			"users:\n- name: me\n  user:\n    "+user+"\n"), 0o600))
		run := func(args ...string) string {
			c := exec.Command(os.Args[0], append([]string{"kubeconfig"}, args...)...)
			c.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "KUBECONFIG="+file)
			out, err := c.CombinedOutput()
			mustDo(t, err)
			return string(out)
		}
		out := run("--address", "https://past.example.com", "--ca", authority)
		if !strings.Contains(out, want) || !strings.Contains(out, "certificate-authority-data: ") || strings.Contains(out, "client-certificate:") {
			t.Errorf("%s:\n%s", user, out)
		}
		if out := run(); strings.Contains(out, "token") || strings.Contains(out, "login") {
			t.Errorf("%s: without TLS it is sent too:\n%s", user, out)
		}
	}
}
