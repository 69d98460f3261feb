package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is the exporter, built for one platform.
type binary struct {
	path string
	os   string
	arch string
	info *debug.BuildInfo
}

// modules are those that are linked into it.
func (b *binary) modules() (all []*debug.Module) {
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m)
	}
	return all
}

func (b *binary) platform() *v1.Platform { return &v1.Platform{OS: b.os, Architecture: b.arch} }

var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}, {OS: "darwin", Architecture: "amd64"},
	{OS: "darwin", Architecture: "arm64"}}

// build builds the exporter for all platforms. It leaves out the paths of this machine, and what Go finds out about the repository, such
// as its tags. So a binary is the same wherever it is built.
func (r *release) build(ctx context.Context, dir string) (binaries []binary, err error) {
	for _, p := range platforms {
		path := filepath.Join(dir, fmt.Sprintf("exporter-%s-%s-%s", r.version, p.OS, p.Architecture))
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version,
			"-o", path, "./cmd/exporter")
		cmd.Dir, cmd.Stderr = r.root, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS="+p.OS, "GOARCH="+p.Architecture, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0")
		fmt.Fprintln(os.Stderr, "build for", p.String())
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build the exporter for %s: %w", p.String(), err)
		}
		b, err := readBinary(path)
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
}

// readBinary reads from a binary what it was built for, and from which modules.
func readBinary(path string) (binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("read the modules of %s: %w", path, err)
	}
	b := binary{path: path, info: info}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			b.os = s.Value
		case "GOARCH":
			b.arch = s.Value
		}
	}
	return b, nil
}
