package servers

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// kubeVersion is what the server says of itself; the code is what test/kube's
// go.mod says.
const kubeVersion = "v1.36.3"

// kubePath is where the binary of kube-apiserver and etcd belongs: its name
// carries a hash of all it is made of, so that a change asks for a new one.
func kubePath(dir string) (binary, source string, err error) {
	root, err := projectRoot()
	if err != nil {
		return "", "", err
	}
	source = filepath.Join(root, "test", "kube")
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, kubeFlags())
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", "", fmt.Errorf("find kube-apiserver's source: %w", err)
		}
		hash.Write(text)
	}
	return filepath.Join(dir, fmt.Sprintf("kube-%x", hash.Sum(nil)[:6])), source, nil
}

func kubeBinary(dir string) (string, error) {
	binary, _, err := kubePath(dir)
	if err == nil && !exists(binary) {
		err = fmt.Errorf("no kube-apiserver at %s: %s", binary, howToInstall)
	}
	return binary, err
}

func kubeFlags() []string {
	parts := strings.Split(strings.TrimPrefix(kubeVersion, "v"), ".")
	var version strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&version, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
			pkg, kubeVersion, parts[0], parts[1])
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w" + version.String()}
}

func (i *installer) installKube(ctx context.Context) error {
	binary, source, err := kubePath(i.dir)
	if err != nil || exists(binary) {
		return err
	}
	what := "build kube-apiserver " + kubeVersion + " and etcd from their Go modules (minutes, the first time)"
	return i.step(what, func() error {
		old, _ := filepath.Glob(filepath.Join(i.dir, "kube-*"))
		if err := i.build(ctx, source, binary); err != nil {
			return err
		}
		for _, path := range old {
			_ = os.Remove(path)
		}
		return nil
	})
}

func (i *installer) build(ctx context.Context, source, binary string) error {
	tmp := binary + ".tmp"
	args := append([]string{"build", "-v", "-o", tmp}, kubeFlags()...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = source
	// Without cgo it needs no C compiler and runs wherever it is copied to.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if err := i.follow(cmd); err != nil {
		return fmt.Errorf("build kube-apiserver in %s: %w", source, err)
	}
	return os.Rename(tmp, binary)
}

// follow runs go build -v, which names each package that it has compiled, and
// tells from time to time how far it has come.
func (i *installer) follow(cmd *exec.Cmd) error {
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var text strings.Builder
	start, told, packages := time.Now(), time.Now(), 0
	for lines := bufio.NewScanner(out); lines.Scan(); packages++ {
		fmt.Fprintln(&text, lines.Text())
		if time.Since(told) > 20*time.Second {
			told = time.Now()
			i.log(fmt.Sprintf("  %d packages compiled after %s, of about 1,500", packages, time.Since(start).Round(time.Second)))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(text.String(), tailLines))
	}
	return nil
}
