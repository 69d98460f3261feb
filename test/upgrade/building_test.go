// Package upgrade tests that an exporter goes on where one of an earlier release has stopped.
package upgrade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// firstCommit is what is upgraded from where no release is tagged since: upgrades count from there on.
const firstCommit = "0dbbd142f322c3e5308a6cd99b21b474625c33d1"

// release is an earlier version of the exporter, built from the repository's history.
type release struct {
	ref    string // as the user knows it
	commit string
	binary string
	root   string // root of the repository
}

// buildRelease builds the exporter of a git ref into bin/upgrade, unless it is there. Without a ref it is the last release
// before HEAD.
func buildRelease(ref string) (*release, error) {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("find the repository, from whose history an earlier exporter is built: %w", err)
	}
	r := &release{ref: ref, root: root}
	if r.ref == "" {
		r.ref = firstCommit
		last, err := output(root, "git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
		if _, other := output(root, "git", "merge-base", "--is-ancestor", firstCommit, last); err == nil && other == nil {
			r.ref = last
		}
	}
	if r.commit, err = output(root, "git", "rev-parse", "--verify", "--quiet", r.ref+"^{commit}"); err != nil {
		return nil, fmt.Errorf("this clone does not have %s, from which to upgrade: run git fetch --tags --unshallow "+
			"(in CI: check out the complete history, fetch-depth: 0), or name another one with FROM=…", r.ref)
	}
	r.binary = filepath.Join(root, "bin", "upgrade", "exporter-"+r.commit[:12])
	if _, err := os.Stat(r.binary); errors.Is(err, os.ErrNotExist) {
		return r, r.build()
	}
	return r, nil
}

func (r *release) build() error {
	source, err := os.MkdirTemp("", "kubecdc-upgrade-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	archive := filepath.Join(source, "source.tar")
	if _, err := output(r.root, "git", "archive", "--output", archive, r.commit); err != nil {
		return err
	}
	if _, err := output(source, "tar", "-xf", archive); err != nil {
		return err
	}
	// It is complete or not there.
	if _, err := output(source, "go", "build", "-ldflags", "-X main.version="+r.ref, "-o", r.binary+".part", "./cmd/exporter"); err != nil {
		return fmt.Errorf("build the exporter of %s: %w", r.ref, err)
	}
	return os.Rename(r.binary+".part", r.binary)
}

// migrations counts the files of a folder of migrations in a commit: the version of its tables.
func (r *release) migrations(commit, folder string) (int, error) {
	files, err := output(r.root, "git", "ls-tree", "--name-only", commit, folder+"/")
	return len(strings.Fields(files)), err
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
