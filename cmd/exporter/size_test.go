package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Most pages of the program are in memory while it runs, used or not, so linked code costs memory: 38.0 MB when this was
// written, 4 of them for the CEL of exporter tail, 2 for AWS' signer, 1 for Avro. It
// was 58 MB with client-go's clientset and discovery, which link the types of every built-in resource
// (source/discovery/documents.go, internal/kubeapi), and with text/template, for which the linker must keep every exported
// method (withExitCodes). To find the cause of growth: go tool nm -size -sort size.
func TestTheProgramIsSmall(t *testing.T) {
	const limit = 39.2e6
	file := filepath.Join(t.TempDir(), "exporter")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "kubecdc/cmd/exporter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > limit {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), int(limit))
	}
}
