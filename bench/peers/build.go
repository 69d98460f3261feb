// Package peers builds the programs below this folder: what people use, or write, to bring changes into Kafka. Each is a module of
// its own.
package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Absent is why a program can't be had here.
type Absent struct{ Why string }

func (a Absent) Error() string { return a.Why }

// Build builds the program of a folder, anew where its source has changed, and returns its path. root is the top folder. The error
// may be Absent.
func Build(ctx context.Context, root, name string) (program string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin", "peers")
	program = filepath.Join(bin, name)
	build := []string{"go", "build", "-C", filepath.Join(root, "bench", "peers", name), "-trimpath", "-o", program, "."}
	if name == "kube-rs" {
		program = filepath.Join(bin, "target", "release", "kube-rs-peer")
		build = []string{"cargo", "build", "--quiet", "--locked", "--release", "--target-dir", filepath.Join(bin, "target"),
			"--manifest-path", filepath.Join(root, "bench", "peers", name, "Cargo.toml")}
	}
	if _, err := exec.LookPath(build[0]); err != nil {
		return "", Absent{build[0] + " is not installed"}
	}
	cmd := exec.CommandContext(ctx, build[0], build[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		return "", Absent{fmt.Sprintf("not built: %v", err)}
	}
	return program, nil
}
