// Command release makes the files of a release from a commit, without a container engine, and signs nothing. Two runs on one
// commit make the same bytes.
//
//	release -version v1.2.3 -out DIR                 all files, below DIR/v1.2.3
//	release -version v1.2.3 -out FILE image BINARY…  an image of Linux binaries
//	release -version v1.2.3 -out DIR publish PLACE   pushes image and chart to a registry
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what all files of a release have in common.
type release struct {
	root    string // root of the repository
	version string // v1.2.3
	name    string // name of the image, without a tag
	source  string // the repository's address; empty: not known
	builder string // a URI: who runs this
	files   string // the public URL of the folder of the files
	commit  string
	time    time.Time // time of the commit: the only time that the files have
}

func run(ctx context.Context, args []string) error {
	var r release
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", "../..", "the repository's `folder`")
	flags.StringVar(&r.version, "version", "", "the release's `version`, such as v1.2.3")
	flags.StringVar(&r.name, "image", "kubecdc/exporter", "the image's `name`")
	flags.StringVar(&r.source, "source", "", "the repository's `URL`, for the image's labels and the provenance")
	flags.StringVar(&r.builder, "builder", "urn:kubecdc:builder:local", "the `URI` of who builds, for the provenance")
	flags.StringVar(&r.files, "files", "", "the public `URL` of the folder of these files, for krew and Homebrew")
	out := flags.String("out", "", "the `folder` of all releases; of an image: the file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("-out is missing: a folder, or the file of the image")
	}
	if err := r.readCommit(ctx); err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "image":
		return r.writeImageOf(flags.Args()[1:], *out)
	case "publish":
		return r.publish(ctx, filepath.Join(*out, r.version), flags.Arg(1))
	}
	return r.all(ctx, filepath.Join(*out, r.version))
}

var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// all writes all files into dir, which it makes anew.
func (r *release) all(ctx context.Context, dir string) error {
	if !semver.MatchString(r.version) {
		return fmt.Errorf("the version %q is none of semver: run make release VERSION=v1.2.3", r.version)
	}
	if err := r.announced(); err != nil {
		return err
	}
	if changed, err := r.git(ctx, "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, fmt.Errorf("a release is made from a commit, and these changes are in none: commit or stash them\n%s", changed))
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binaries, err := r.build(ctx, dir)
	if err != nil {
		return err
	}
	made, err := r.write(ctx, dir, binaries)
	if err != nil {
		return err
	}
	return r.explain(os.Stdout, dir, made)
}

// readCommit reads what is checked out. SOURCE_DATE_EPOCH replaces the commit's time
// (https://reproducible-builds.org/specs/source-date-epoch).
func (r *release) readCommit(ctx context.Context) (err error) {
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is no number of seconds: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	return nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("git %s in %s: %w", args[0], r.root, err)
	}
	return strings.TrimSpace(string(out)), nil
}
