package servers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// kubeVersionEnv names the environment variable that selects a version of kube-apiserver, such as 1.36. By default it is the
// newest.
const kubeVersionEnv = "KUBECDC_TEST_KUBE"

// kubeSource is a version of kube-apiserver and etcd, as a file of Go modules in test/kube pins it: go.mod the newest, v1.36.mod
// an older one. Or it is that of kubectl in test/kubectl.
type kubeSource struct {
	what    string
	dir     string
	mod     string // the name of the file
	version string // that the program reports
	binary  string
}

var pinned = regexp.MustCompile(`(?m)^\tk8s\.io/kube(?:rnetes|ctl) (v\d+\.\d+\.\d+)$`)

func findKube(dir string) (*kubeSource, error) {
	return findSource(dir, "kube", "kube-apiserver", os.Getenv(kubeVersionEnv))
}

func findKubectl(dir string) (*kubeSource, error) { return findSource(dir, "kubectl", "kubectl", "") }

// findSource finds the selected version. The name of its binary has a hash of all that it is made of, so that a change asks for a
// new one.
func findSource(dir, module, what, wanted string) (*kubeSource, error) {
	root, err := projectRoot()
	if err != nil {
		return nil, err
	}
	k := &kubeSource{what: what, dir: filepath.Join(root, "test", module), mod: "go.mod"}
	if wanted != "" {
		if older := "v" + wanted + ".mod"; exists(filepath.Join(k.dir, older)) {
			k.mod = older
		}
	}
	hash := sha256.New()
	for _, name := range []string{k.mod, strings.TrimSuffix(k.mod, "mod") + "sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(k.dir, name))
		if err != nil {
			return nil, fmt.Errorf("find the source of %s: %w", what, err)
		}
		hash.Write(text)
		if m := pinned.FindSubmatch(text); m != nil {
			k.version = string(m[1])
		}
	}
	if wanted != "" && k.minor() != wanted {
		return nil, fmt.Errorf("%s is %q, and test/kube has no file v%s.mod: its go.mod is of %s", kubeVersionEnv, wanted, wanted, k.minor())
	}
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, k.flags())
	k.binary = filepath.Join(dir, fmt.Sprintf("%s-%s-%x", module, k.minor(), hash.Sum(nil)[:6]))
	return k, nil
}

// minor is 1.36 of v1.36.3.
func (k *kubeSource) minor() string {
	return strings.Join(strings.Split(strings.TrimPrefix(k.version, "v"), ".")[:2], ".")
}

// flags are those that the binary is built with.
func (k *kubeSource) flags() []string {
	major, minor, _ := strings.Cut(k.minor(), ".")
	var version strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&version, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, k.version, major, minor)
	}
	return []string{"-modfile=" + k.mod, "-trimpath", "-buildvcs=false", "-ldflags=-s -w" + version.String()}
}
