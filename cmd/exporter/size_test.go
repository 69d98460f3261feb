package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Most pages of the program are in memory while it runs, so linked code costs memory: 40.0 MB when this was written. CEL for
// exporter tail took 4 MB, AWS' signer 2, the SDK of MCP 1.9, and Avro 1.
//
// Two libraries would bring it to 58 MB. client-go's clientset and discovery link the types of every built-in resource
// (source/discovery/documents.go, internal/kubeapi). text/template makes the linker retain every exported method (withExitCodes).
// To find the cause of growth: go tool nm -size -sort size.
func TestTheProgramIsSmall(t *testing.T) {
	const limit = 43e6
	file := filepath.Join(t.TempDir(), "exporter")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "kubecdc/cmd/exporter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	must(t, err)
	if info.Size() > limit {
		t.Errorf("the program has %d bytes, more than %d", info.Size(), int(limit))
	}
}
