package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	howToInstall         = "run `go run ./test/servers/cmd/servers install`"
	howToInstallRegistry = "run `go run ./test/servers/cmd/servers install registry`"
)

// Missing says of each part that could not be installed why, with the way to fix it.
type Missing map[Part]string

func (m Missing) String() string { return strings.Join(slices.Sorted(maps.Values(m)), "\n") }

// Part is one of the servers.
type Part string

// The parts that Install knows.
const (
	KubernetesPart Part = "kubernetes"
	KafkaPart      Part = "kafka"
	PostgresPart   Part = "postgres"
	PgBouncerPart  Part = "pgbouncer"   // for tests alone
	KubectlPart    Part = "kubectl"     // for tests of exporter serve
	RegistryPart   Part = "registry"    // for make registry alone: only if it is named
	OlderKafkaPart Part = "older-kafka" // for a test of an upgrade: only if it is named
)

// Install makes the servers ready to start: all of them, or the named parts. It logs steps that take time. If all is there already, it
// logs nothing and takes a few milliseconds. Only one process installs at a time, and the others wait.
//
// Kubernetes builds anywhere that Go does, so a failure there is an error. Any other part that can't be had is in Missing.
func Install(ctx context.Context, log func(string), parts ...Part) (Missing, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("install servers: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "install.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	return (&installer{dir: dir, log: log}).install(ctx, parts)
}

type installer struct {
	dir string
	log func(string)
}

func (i *installer) install(ctx context.Context, parts []Part) (Missing, error) {
	if len(parts) == 0 {
		parts = []Part{PostgresPart, PgBouncerPart, KafkaPart, KubernetesPart, KubectlPart}
	}
	how := map[Part]func(context.Context) error{KubernetesPart: i.installKube, KafkaPart: i.installKafka, PostgresPart: i.installPostgres,
		PgBouncerPart: i.installPgBouncer, RegistryPart: i.installRegistry, KubectlPart: i.installKubectl, OlderKafkaPart: i.installOlderKafka}
	missing := Missing{}
	for _, part := range parts {
		if how[part] == nil {
			return missing, fmt.Errorf("install %q: no such part", part)
		}
		err := how[part](ctx)
		switch {
		case ctx.Err() != nil:
			return missing, errors.Join(err, context.Cause(ctx))
		case err != nil && part == KubernetesPart:
			return missing, err
		case err != nil:
			missing[part] = fmt.Sprintf("no %s: %v", part, err)
		}
	}
	return missing, nil
}

// step logs the beginning of a step and, at its end, how long it took.
func (i *installer) step(what string, do func() error) error {
	start := time.Now()
	i.log(what + "…")
	if err := do(); err != nil {
		return err
	}
	i.log(fmt.Sprintf("%s: done in %s", what, time.Since(start).Round(100*time.Millisecond)))
	return nil
}

// run runs a tool to its end. Only an error shows its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, lastLines(string(out), tailLines))
	}
	return nil
}

// apt installs Debian packages, where this process may.
func (i *installer) apt(ctx context.Context, packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("install what is missing with the system's package manager (Debian: apt-get install %s)",
			strings.Join(packages, " "))
	}
	return i.step("apt-get install "+strings.Join(packages, " "), func() error {
		for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-qq", "-y", "--no-install-recommends"}, packages...)} {
			cmd := exec.CommandContext(ctx, apt, args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			if err := run(cmd); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceDir makes dir with fill, completely or not at all.
func replaceDir(dir string, fill func(tmp string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}
