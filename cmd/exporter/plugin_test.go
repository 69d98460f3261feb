package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// kubectl finds the program as a plugin. Help and errors name it so, and a moment alone asks kubectl at that moment.
func TestThePluginOfKubectl(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "log-sqlite.db")
	writeLog(t, log, "mine")
	self, err := filepath.Abs(os.Args[0])
	mustDo(t, err)
	mustDo(t, os.Symlink(self, filepath.Join(folder, pluginProgram)))
	kubectl := servers.Kubectl(t)
	mustDo(t, os.Symlink(kubectl, filepath.Join(folder, "kubectl")))
	for _, c := range []struct{ args, want, never string }{
		{"past --help", "kubectl past [command]", "exporter run"},
		{"past history --help", "kubectl past history deploy web -n shop", "exporter history"},
		{"past histry", "did you mean history? kubectl past --help", "exporter"},
		{"past history -A --log " + log, "default/web", "exporter"},
		{"past --at now --log " + log + " -- get pods -A", "web", "exporter"},
		{"past --at=now --log " + log + " -- get pods -A", "web", "exporter"},
	} {
		run := exec.Command(kubectl, strings.Fields(c.args)...)
		run.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "HOME="+folder, "PATH="+folder)
		out, _ := run.CombinedOutput()
		if text := string(out); !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("kubectl %s, which should have %q and not %q:\n%s", c.args, c.want, c.never, out)
		}
	}
}
