// Command matrix runs the tests that depend on the API server on each version of it that test/kube has, and writes what came of it
// into docs/compatibility.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kubecdc/test/servers"
)

func main() {
	var w wanted
	flag.StringVar(&w.version, "only", "", "one `version`, such as 1.36")
	flag.StringVar(&w.suite, "suite", "", "one suite: a `part` of its name")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, w); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// wanted is what to run; the results of all else stay as they are.
type wanted struct{ version, suite string }

// results is where the result of each version is kept, so that a page can be made of several runs.
const results = "bin/matrix"

func run(ctx context.Context, w wanted) error {
	versions, err := servers.KubeVersions()
	if err != nil {
		return err
	}
	if w.version != "" && !slices.Contains(versions, w.version) {
		return fmt.Errorf("there is no version %s: test/kube has %s", w.version, strings.Join(versions, ", "))
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	var all []*result
	var failed []error
	for _, version := range versions {
		r, err := load(version)
		if err == nil && (w.version == "" || w.version == version) {
			err = r.try(ctx, version, w.suite)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", version, err)
		}
		if r.Version == "" {
			continue
		}
		if all = append(all, r); r.failed() != "" {
			failed = append(failed, fmt.Errorf("%s: failed: %s", version, r.failed()))
		}
	}
	return errors.Join(append(failed, write("docs/compatibility.md", all))...)
}

func file(version string) string { return filepath.Join(results, version+".json") }

// load gives the result of earlier runs; an empty one if there was none.
func load(version string) (*result, error) {
	r := &result{Suites: map[string]*outcome{}}
	text, err := os.ReadFile(file(version))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	return r, err
}

// try starts a version of the API server to ask it what it is, and runs the tests with it.
func (r *result) try(ctx context.Context, version, part string) error {
	if err := os.Setenv(servers.KubeVersionEnv, version); err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	if _, err := servers.Install(ctx, say, servers.KubernetesPart); err != nil {
		return err
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	r.Date = time.Now().UTC().Format(time.DateOnly)
	for _, s := range suites {
		if !strings.Contains(s.Name, part) {
			continue
		}
		say(fmt.Sprintf("kube-apiserver %s: go test %s", r.Version, strings.Join(s.args(), " ")))
		o, err := s.run(ctx)
		if err != nil {
			return err
		}
		r.Suites[s.Name] = o
		text, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			err = os.WriteFile(file(version), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
