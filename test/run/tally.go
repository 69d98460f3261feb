package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for build output
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// result is a test, or a package without Test, that has ended.
type result struct {
	Package, Test string
	Seconds       float64
}

// tally is what the events have reported so far.
type tally struct {
	file     string
	last     map[string]float64 // seconds that each package took the last time
	began    time.Time
	terminal bool
	shown    time.Time

	running  map[string]*running
	packages []result // that have ended
	tests    []result // at the top level, that have passed or failed
	skipped  int
	failures []failure // in their order
	output   map[string][]string
}

type running struct {
	since       time.Time
	tests, done int                  // at the top level
	going       map[string]time.Time // tests that run, and since when
}

// failure is a test that failed, or a package that failed without one.
type failure struct {
	name   string
	output []string
}

func newTally(file string) *tally {
	t := &tally{file: file, last: map[string]float64{}, began: time.Now(), running: map[string]*running{}, output: map[string][]string{},
		terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	if text, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(text, &t.last)
	}
	return t
}

func (t *tally) add(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		t.print(strings.TrimRight(string(line), "\n"))
		return
	}
	id := cmp.Or(e.Package, e.ImportPath) + " " + e.Test
	switch e.Action {
	case "start":
		t.running[e.Package] = &running{since: time.Now(), tests: countTests(e.Package), going: map[string]time.Time{}}
	case "run", "cont":
		t.goes(e, true)
	case "pause":
		t.goes(e, false)
	case "output", "build-output":
		t.output[id] = append(t.output[id], e.Output)
	case "pass", "fail", "skip":
		t.ended(e, id)
	case "build-fail":
		t.failures = append(t.failures, failure{name: "build of " + e.ImportPath, output: t.output[id]})
	}
}

func (t *tally) ended(e event, id string) {
	if e.Action == "fail" && (e.Test != "" || e.FailedBuild == "" && !t.hasFailed(e.Package)) {
		f := failure{name: strings.TrimSpace(short(e.Package) + " " + e.Test), output: t.output[id]}
		if e.Test == "" {
			f.output = append(t.unfinished(e.Package), f.output...)
		}
		if !slices.ContainsFunc(t.failures, func(inner failure) bool { return strings.HasPrefix(inner.name, f.name+"/") }) {
			t.print("FAIL " + firstLines(f, 10))
		}
		t.failures = append(t.failures, f)
	}
	delete(t.output, id)
	switch r := (result{e.Package, e.Test, e.Elapsed}); {
	case e.Test == "":
		delete(t.running, e.Package)
		t.packages = append(t.packages, r)
		if e.Elapsed > 0 {
			t.print(fmt.Sprintf("%-5s %7.1fs  %s", map[string]string{"pass": "ok", "fail": "FAIL", "skip": "-"}[e.Action], e.Elapsed, short(e.Package)))
		}
	case strings.Contains(e.Test, "/"):
	case e.Action == "skip":
		t.skipped++
		t.done(e)
	default:
		t.tests = append(t.tests, r)
		t.done(e)
	}
}

// unfinished has what the tests have said that were running when their package ended.
func (t *tally) unfinished(pkg string) (output []string) {
	for _, id := range slices.Sorted(maps.Keys(t.output)) {
		if owner, test, _ := strings.Cut(id, " "); owner == pkg && test != "" {
			output = append(output, "had not ended: "+test+"\n")
			output = append(output, t.output[id]...)
			delete(t.output, id)
		}
	}
	return output
}

func (t *tally) done(e event) {
	if r := t.running[e.Package]; r != nil {
		r.done++
	}
	t.goes(e, false)
}

// goes records that a test runs from now on, or that it does not run any more.
func (t *tally) goes(e event, runs bool) {
	r := t.running[e.Package]
	switch {
	case r == nil || strings.Contains(e.Test, "/"):
	case runs:
		r.going[e.Test] = time.Now()
	default:
		delete(r.going, e.Test)
	}
}

// slowest names the test that has run for longest, if that is more than a minute.
func (r *running) slowest() string {
	since, name := time.Now().Add(-time.Minute), ""
	for test, began := range r.going {
		if began.Before(since) {
			since, name = began, test
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s for %s)", name, time.Since(since).Round(time.Second))
}

func (t *tally) hasFailed(pkg string) bool {
	return slices.ContainsFunc(t.failures, func(f failure) bool { return strings.HasPrefix(f.name, short(pkg)+" ") })
}

// progress says where each running package is: each second on a terminal, elsewhere each half minute.
func (t *tally) progress() {
	if every := map[bool]time.Duration{true: time.Second, false: 30 * time.Second}[t.terminal]; time.Since(t.shown) < every {
		return
	}
	t.shown = time.Now()
	var parts []string
	for name, r := range t.running {
		parts = append(parts, fmt.Sprintf("%s %d of %d%s", short(name), r.done, max(r.tests, r.done), r.slowest()))
	}
	if slices.Sort(parts); len(parts) == 0 {
		parts = []string{"building"}
	}
	line := fmt.Sprintf("%6s  %s%s", time.Since(t.began).Round(time.Second), strings.Join(parts, " · "), t.left())
	if t.terminal {
		width, _, _ := term.GetSize(int(os.Stdout.Fd()))
		fmt.Printf("\r\033[K%.*s", max(width-1, 20), line)
		return
	}
	fmt.Println(line)
}

// left is an estimate: what the last run took, less what has passed.
func (t *tally) left() string {
	total := t.last[""]
	if left := time.Duration(total*float64(time.Second)) - time.Since(t.began); total > 0 && left > 0 {
		return fmt.Sprintf("  (%s left, by the last run)", left.Round(time.Second))
	}
	return ""
}

func (t *tally) print(line string) {
	if t.terminal {
		fmt.Print("\r\033[K")
	}
	fmt.Println(line)
}

func (t *tally) summary(usage *syscall.Rusage) {
	slices.SortFunc(t.tests, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	t.print("\nslowest tests:")
	for _, r := range t.tests[:min(10, len(t.tests))] {
		fmt.Printf("%8.1fs  %s %s\n", r.Seconds, short(r.Package), r.Test)
	}
	for i, f := range t.failures {
		if fmt.Printf("\nFAIL %s\n", f.name); i < 3 {
			fmt.Print(strings.Join(f.output[:min(len(f.output), 30)], ""))
			fmt.Print(strings.Join(f.output[max(min(len(f.output), 30), len(f.output)-60):], ""))
		}
	}
	t.keepFailures()
	took := time.Since(t.began)
	fmt.Printf("\n%d packages, %d tests passed, %d skipped, in %s", len(t.packages), len(t.tests)-t.failedTests(), t.skipped, took.Round(time.Second))
	if usage != nil {
		cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		fmt.Printf(" and %s of processor time", cpu.Round(time.Second))
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", len(t.tests)-t.failedTests(), len(t.failures), t.skipped)
	if len(t.failures) > 0 {
		fmt.Println("failed first: " + firstLines(t.failures[0], 10))
		return
	}
	t.keep(took)
}

func (t *tally) failedTests() (n int) {
	for _, f := range t.failures {
		if strings.Contains(f.name, " Test") && !strings.Contains(f.name, "/") {
			n++
		}
	}
	return n
}

// keepFailures writes all that failed tests have said, the stacks of a process that stood still among it.
func (t *tally) keepFailures() {
	if len(t.failures) == 0 || t.file == "" {
		return
	}
	var text strings.Builder
	for _, f := range t.failures {
		fmt.Fprintf(&text, "FAIL %s\n%s\n", f.name, strings.Join(f.output, ""))
	}
	path := strings.TrimSuffix(t.file, ".json") + "-failures.txt"
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err == nil {
		fmt.Println("\nall that they said is in " + path)
	}
}

// keep writes how long all took, for the next run.
func (t *tally) keep(took time.Duration) {
	if t.file == "" {
		return
	}
	t.last[""] = took.Seconds()
	for _, p := range t.packages {
		t.last[p.Package] = p.Seconds
	}
	if text, err := json.MarshalIndent(t.last, "", "\t"); err == nil {
		_ = os.MkdirAll(filepath.Dir(t.file), 0o755)
		_ = os.WriteFile(t.file, text, 0o644)
	}
}

// firstLines are the lines of a failure that say what it is, without the lines of the test runner and a log's information.
func firstLines(f failure, n int) string {
	lines := []string{f.name}
	for _, line := range strings.Split(strings.Join(f.output, ""), "\n") {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "=== ") && !strings.Contains(text, "Z INF ") && len(lines) < n {
			lines = append(lines, fmt.Sprintf("%.300s", line))
		}
	}
	return strings.Join(lines, "\n")
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "kubecdc/") }

var testFunc = regexp.MustCompile(`(?m)^func Test[A-Z]\w*\(t \*testing\.T\)`)

// countTests counts a package's tests in its sources.
func countTests(pkg string) (n int) {
	files, _ := filepath.Glob(filepath.Join(short(pkg), "*_test.go"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		n += len(testFunc.FindAll(text, -1))
	}
	return n
}
