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
	"slices"
	"strings"
	"time"
)

// kubeVersion is the version that the server reports; test/kube's go.mod pins
// the code.
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
	var packages int
	err = i.step("get the Go modules of kube-apiserver "+kubeVersion+" and etcd", func() (err error) {
		packages, err = toCompile(ctx, source)
		return err
	})
	if err != nil {
		return err
	}
	return i.step("build kube-apiserver "+kubeVersion+" and etcd (minutes, the first time)", func() error {
		old, _ := filepath.Glob(filepath.Join(i.dir, "kube-*"))
		if err := i.build(ctx, source, binary, packages); err != nil {
			return err
		}
		for _, path := range old {
			_ = os.Remove(path)
		}
		return nil
	})
}

// toCompile downloads the modules that are not there, and counts the packages
// that are not in Go's build cache. It is the most that will be compiled: of
// these, the cache may still have some once it is known what they import.
func toCompile(ctx context.Context, source string) (int, error) {
	var list, messages strings.Builder
	cmd := goKube(ctx, source, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}")
	cmd.Stdout, cmd.Stderr = &list, &messages
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("list what kube-apiserver is made of, in %s: %w\n%s", source, err, lastLines(messages.String(), tailLines))
	}
	return len(strings.Fields(list.String())), nil
}

func (i *installer) build(ctx context.Context, source, binary string, packages int) error {
	tmp := binary + ".tmp"
	if err := i.follow(goKube(ctx, source, "build", "-v", "-o", tmp), packages); err != nil {
		return fmt.Errorf("build kube-apiserver in %s: %w", source, err)
	}
	return os.Rename(tmp, binary)
}

// goKube is a go command on kube-apiserver, with the flags that its binary is
// built with.
func goKube(ctx context.Context, source, verb string, args ...string) *exec.Cmd {
	args = slices.Concat([]string{verb}, args, kubeFlags(), []string{"."})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	// Without cgo it needs no C compiler and runs wherever it is copied to.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	return cmd
}

// follow runs go build -v, which names each package that it has compiled, and
// tells from time to time how far it has come.
func (i *installer) follow(cmd *exec.Cmd, packages int) error {
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var text strings.Builder
	start, told, compiled := time.Now(), time.Now(), 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&text, lines.Text())
		if !strings.Contains(lines.Text(), " ") { // else it is a message
			compiled++
		}
		if time.Since(told) > 20*time.Second {
			told = time.Now()
			i.log(fmt.Sprintf("  %d of at most %d packages compiled after %s", compiled, packages, time.Since(start).Round(time.Second)))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(text.String(), tailLines))
	}
	return nil
}
