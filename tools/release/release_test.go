package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var testRelease = release{root: "../..", version: "v1.2.3", name: "kubecdc/exporter", source: "https://git.example/kubecdc",
	builder: "https://ci.example", commit: "0123456789012345678901234567890123456789", time: time.Unix(1_700_000_000, 0).UTC()}

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "kubecdc-release-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

var buildDir string

// testBinaries are the exporter for this machine's processor, and an empty program for the other.
func testBinaries(t *testing.T) []binary {
	t.Helper()
	if testing.Short() {
		t.Skip("this test builds the exporter: make test runs it")
	}
	binaries, err := buildOnce()
	must(t, err)
	return binaries
}

var buildOnce = sync.OnceValues(func() (binaries []binary, err error) {
	for _, arch := range []string{"amd64", "arm64"} {
		dir, target := "../..", "./cmd/exporter"
		if arch != runtime.GOARCH {
			dir, target = ".", "./testdata/empty"
		}
		path := filepath.Join(buildDir, "exporter-"+arch)
		build := exec.Command("go", "build", "-o", path, target)
		build.Dir, build.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", target, err, out)
		}
		b, err := readBinary(path)
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
})

func TestImages(t *testing.T) {
	r := testRelease
	binaries := testBinaries(t)
	index, err := r.images(binaries)
	must(t, err)
	file := filepath.Join(t.TempDir(), "image.tar")
	must(t, r.writeImages(file, index, "kubecdc/exporter:v1.2.3"))

	t.Run("go through a registry", func(t *testing.T) {
		images := throughRegistry(t, file, "kubecdc/exporter:v1.2.3")
		wantImage(t, images(v1.Platform{OS: "linux", Architecture: "amd64"}), elf.EM_X86_64)
		wantImage(t, images(v1.Platform{OS: "linux", Architecture: "arm64"}), elf.EM_AARCH64)
	})
	t.Run("can be loaded into Docker's older store", func(t *testing.T) {
		for _, arch := range []string{"amd64", "arm64"} {
			tag, err := name.NewTag("kubecdc/exporter:v1.2.3-" + arch)
			must(t, err)
			image, err := tarball.ImageFromPath(file, &tag)
			must(t, err)
			config, err := image.ConfigFile()
			must(t, err)
			if config.Architecture != arch {
				t.Errorf("%s is for %s", tag, config.Architecture)
			}
		}
	})
	t.Run("are the same each time", func(t *testing.T) {
		again := filepath.Join(t.TempDir(), "again.tar")
		second, err := r.images(binaries)
		must(t, err)
		must(t, r.writeImages(again, second, "kubecdc/exporter:v1.2.3"))
		a, err := sha256Of(file)
		must(t, err)
		b, err := sha256Of(again)
		must(t, err)
		if a != b {
			t.Error("two archives of the same binaries differ")
		}
	})
}

// throughRegistry pushes an OCI layout to a registry, and reads it from there, by platform.
func throughRegistry(t *testing.T, file, reference string) func(v1.Platform) v1.Image {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	reference = strings.TrimPrefix(server.URL, "http://") + "/" + reference
	must(t, push(t.Context(), file, reference))
	ref, err := name.ParseReference(reference)
	must(t, err)
	return func(p v1.Platform) v1.Image {
		image, err := remote.Image(ref, remote.WithPlatform(p))
		must(t, err)
		must(t, validate.Image(image))
		return image
	}
}

// wantImage demands what kubelet and users need of an image.
func wantImage(t *testing.T, image v1.Image, machine elf.Machine) {
	t.Helper()
	file, err := image.ConfigFile()
	must(t, err)
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/exporter"}) || !slices.Equal(c.Cmd, []string{"run"}) {
		t.Errorf("user %s, entrypoint %s, cmd %s", c.User, c.Entrypoint, c.Cmd)
	}
	for label, want := range map[string]string{"version": "v1.2.3", "revision": testRelease.commit, "created": "2023-11-14T22:13:20Z",
		"source": "https://git.example/kubecdc", "title": "kubecdc exporter"} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	files := filesOf(t, image)
	program, err := elf.NewFile(bytes.NewReader(files["exporter"]))
	must(t, err)
	if libraries, err := program.ImportedLibraries(); program.Machine != machine || len(libraries) > 0 || err != nil {
		t.Errorf("the program is for %s, and needs %s (%v)", program.Machine, libraries, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("the image has no certificates")
	}
	for _, want := range []string{"Copyright 2026 The kubecdc authors", "Copyright 2009 The Go Authors"} {
		if !strings.Contains(string(files[licensesFile]), want) {
			t.Errorf("the licences lack %q", want)
		}
	}
	if !strings.Contains(string(files["etc/passwd"]), "nonroot:x:65532:65532:") {
		t.Errorf("/etc/passwd: %s", files["etc/passwd"])
	}
}

func filesOf(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	extracted := mutate.Extract(image)
	defer extracted.Close()
	for files := tar.NewReader(extracted); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if all[h.Name], err = io.ReadAll(files); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
