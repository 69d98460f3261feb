package upgrade

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The error of a clone without history, as CI makes it by default, says how to get it.
func TestTheErrorOfAShallowCloneSaysWhatItLacks(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "--quiet", "--depth=1", "file://"+repository(t), clone).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Chdir(clone)
	_, err := buildRelease(firstCommit)
	if err == nil || !strings.Contains(err.Error(), "git fetch --tags --unshallow") {
		t.Errorf("error is %v", err)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	must(t, err)
	return root
}
