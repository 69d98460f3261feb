package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// krew's own validation accepts the manifest, and krew installs the plugin from manifest and archive, without a network. make krew builds
// both programs.
func TestPackages(t *testing.T) {
	dir := t.TempDir()
	must(t, testRelease.writePackages(dir, testBinaries(t), []byte("licences")))
	var manifest struct {
		Spec struct {
			Platforms []struct{ URI, SHA256 string }
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, krewFile))
	must(t, err)
	must(t, json.Unmarshal(text, &manifest))
	formula, err := os.ReadFile(filepath.Join(dir, formulaFile))
	must(t, err)
	if len(manifest.Spec.Platforms) != 2 {
		t.Errorf("the manifest is\n%s", text)
	}
	archive := ""
	for _, p := range manifest.Spec.Platforms {
		path := filepath.Join(dir, filepath.Base(p.URI))
		if digest, err := sha256Of(path); err != nil || digest != p.SHA256 || !strings.Contains(string(formula), digest) {
			t.Errorf("%s has the digest %s (%v), the manifest %s, and the formula is\n%s", path, digest, err, p.SHA256, formula)
		}
		if strings.HasSuffix(path, runtime.GOOS+"-"+runtime.GOARCH+".tar.gz") {
			archive = path
		}
	}
	again := t.TempDir()
	must(t, testRelease.writePackages(again, testBinaries(t), []byte("licences")))
	if second, err := sha256Of(filepath.Join(again, filepath.Base(archive))); err != nil || !strings.Contains(string(text), second) {
		t.Errorf("a second archive of the same program differs: %v", err)
	}
	programs := os.Getenv("KUBECDC_TEST_KREW")
	if programs == "" {
		return
	}
	root := t.TempDir()
	for _, line := range [][]string{{"validate-krew-manifest", "-manifest", filepath.Join(dir, krewFile), "-skip-install"},
		{"krew", "install", "--manifest=" + filepath.Join(dir, krewFile), "--archive=" + archive}} {
		c := exec.Command(filepath.Join(programs, line[0]), line[1:]...)
		c.Env = append(os.Environ(), "KREW_ROOT="+root, "https_proxy=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	out, err := exec.Command(filepath.Join(root, "bin", pluginFile), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kubectl past") {
		t.Errorf("the installed plugin ends with %v:\n%s", err, out)
	}
}
