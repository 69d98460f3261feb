package servers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func kubeBinary(dir string) (string, error) {
	k, err := findKube(dir)
	if err != nil {
		return "", err
	}
	if !exists(k.binary) {
		return "", fmt.Errorf("no kube-apiserver at %s: %s", k.binary, howToInstall)
	}
	return k.binary, nil
}

func (i *installer) installKube(ctx context.Context) error {
	k, err := findKube(i.dir)
	return i.installSource(ctx, k, err)
}

func (i *installer) installKubectl(ctx context.Context) error {
	k, err := findKubectl(i.dir)
	return i.installSource(ctx, k, err)
}

// Kubectl is the path of kubectl. It builds it, unless that was done before.
func Kubectl(t testing.TB) string {
	t.Helper()
	Need(t)
	missing, err := Install(context.Background(), func(line string) { t.Log(line) }, KubectlPart)
	if err != nil || len(missing) > 0 {
		t.Fatalf("this test needs kubectl: %v %v", err, missing)
	}
	dir, err := Dir()
	must(t, err)
	k, err := findKubectl(dir)
	must(t, err)
	return k.binary
}

// OlderKubectl is the path of an older kubectl that test/kubectl pins, such as 0.29, the module's version for Kubernetes 1.29. It builds
// it, unless that was done before.
func OlderKubectl(t testing.TB, version string) string {
	t.Helper()
	Need(t)
	dir, err := Dir()
	must(t, err)
	k, err := findSource(dir, "kubectl", "kubectl", version)
	must(t, err)
	must(t, (&installer{dir: dir, log: func(line string) { t.Log(line) }}).installSource(context.Background(), k, nil))
	return k.binary
}

// installSource builds what is not there. It takes the error of finding it.
func (i *installer) installSource(ctx context.Context, k *kubeSource, err error) error {
	if err != nil || exists(k.binary) {
		return err
	}
	var packages int
	err = i.step("get the Go modules of "+k.what+" "+k.version, func() (err error) {
		packages, err = toCompile(ctx, k)
		return err
	})
	if err != nil {
		return err
	}
	return i.step("build "+k.what+" "+k.version+" (minutes, the first time)", func() error {
		name, _, _ := strings.Cut(filepath.Base(k.binary), "-")
		old, _ := filepath.Glob(filepath.Join(i.dir, name+"-"+k.minor()+"-*"))
		if err := i.build(ctx, k, packages); err != nil {
			return err
		}
		for _, path := range old {
			_ = os.Remove(path)
		}
		return nil
	})
}

// toCompile downloads the modules that are not there, and counts the packages that are not in Go's build cache. It is the most
// that will be compiled: of these, the cache may still have some once it is known what they import.
func toCompile(ctx context.Context, k *kubeSource) (int, error) {
	var list, messages strings.Builder
	cmd := goKube(ctx, k, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}")
	cmd.Stdout, cmd.Stderr = &list, &messages
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("list what %s is made of, in %s: %w\n%s", k.what, k.dir, err, lastLines(messages.String(), tailLines))
	}
	return len(strings.Fields(list.String())), nil
}

func (i *installer) build(ctx context.Context, k *kubeSource, packages int) error {
	tmp := k.binary + ".tmp"
	if err := i.follow(goKube(ctx, k, "build", "-v", "-o", tmp), packages); err != nil {
		return fmt.Errorf("build %s in %s: %w", k.what, k.dir, err)
	}
	return os.Rename(tmp, k.binary)
}

// goKube is a go command on a source, with the flags that its binary is built with.
func goKube(ctx context.Context, k *kubeSource, verb string, args ...string) *exec.Cmd {
	args = slices.Concat([]string{verb}, args, k.flags(), []string{"."})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = k.dir
	// Without cgo it needs no C compiler and runs wherever it is copied to.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	return cmd
}

// follow runs go build -v, which names each package that it has compiled, and tells from time to time how far it has come.
func (i *installer) follow(cmd *exec.Cmd, packages int) error {
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var text strings.Builder
	start, reported, compiled := time.Now(), time.Now(), 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&text, lines.Text())
		if !strings.Contains(lines.Text(), " ") { // else it is a message
			compiled++
		}
		if time.Since(reported) > 20*time.Second {
			reported = time.Now()
			i.log(fmt.Sprintf("  %d of at most %d packages compiled after %s", compiled, packages, time.Since(start).Round(time.Second)))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(text.String(), tailLines))
	}
	return nil
}
