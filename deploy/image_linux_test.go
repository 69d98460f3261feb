package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheBinaryNeedsNothingBesideIt runs the binary as the image does: alone in a read-only file system, as a user without a
// name.
func TestTheBinaryNeedsNothingBesideIt(t *testing.T) {
	root := image(t)
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"version": "kubecdc exporter",
		"check":   "KUBECDC_CHECKPOINT (--checkpoint): not set, and this user has no home folder",
	} {
		out, err := container(t, root, args).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("exporter %s: %v\n%s", args, err, out)
		}
	}
}

// image returns a file system with only the binary.
func image(t *testing.T) (root string) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test builds the image's binary: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	root = t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(root, "exporter"), "kubecdc/cmd/exporter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return root
}

// container runs the binary of an image, as the Dockerfile's user, for a minute at most.
func container(t *testing.T, root string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	run := exec.CommandContext(ctx, "/exporter", args...)
	run.Dir, run.Env = "/", []string{}
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return run
}
