package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Most of the program's pages are in memory while it runs, whether it uses them or not, so what is linked into it is
// memory. 26 MB, when this was written. What made it 58 MB: client-go's clientset and discovery, which bring the types
// of every built-in resource (source/discovery/documents.go, internal/kubeapi), and whatever executes a text/template, since the
// linker must then keep every exported method (withExitCodes). What else made it grow: go tool nm -size -sort size.
func TestTheProgramIsSmall(t *testing.T) {
	const limit = 32e6
	file := filepath.Join(t.TempDir(), "exporter")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "kubecdc/cmd/exporter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > limit {
		t.Errorf("the program has %d MB, more than %d", info.Size()/1e6, int(limit/1e6))
	}
}
