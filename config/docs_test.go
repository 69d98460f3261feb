package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages name files, folders and tests in backticks, and link to each other.
var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	testName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	fileName = regexp.MustCompile(`^\w[\w./-]*(?:/|\.(?:go|sql|md|yaml|json))$`)
	pathName = regexp.MustCompile(`^([a-z]\w*)/[a-z0-9_./-]*$`)
)

func TestPagesNameFilesAndTestsThatExist(t *testing.T) {
	paths, tests := project(t)
	for page, text := range pages(t) {
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			name := match[1]
			switch test := testName.FindString(name); {
			case test != "" && !tests[test]:
				t.Errorf("%s names the test %s, which does not exist", page, test)
			case isPath(name, paths) && !paths[strings.TrimSuffix(name, "/")]:
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

// isPath reports whether a quoted name is a path of this project. Such a name is written as a file or a folder, or begins with a folder.
func isPath(name string, paths map[string]bool) bool {
	match := pathName.FindStringSubmatch(name)
	return fileName.MatchString(name) || match != nil && paths[match[1]]
}

func TestPagesLinkToPagesAndHeadingsThatExist(t *testing.T) {
	all := pages(t)
	all["../CHANGELOG.md"] = read(t, "../CHANGELOG.md")
	for page, text := range all {
		for _, match := range linked.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			place, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if place != "" {
				target = filepath.Join(filepath.Dir(page), place)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s links to %s, but there is no such heading", page, match[1])
			}
		}
	}
}

// pages returns the texts of all pages by their paths, without the changelog, whose entries are about their time.
func pages(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, pattern := range []string{"../README.md", "../CONTRIBUTING.md", "../docs/*.md", "../docs/adr/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no page matches %s (%v)", pattern, err)
		}
		for _, page := range found {
			all[page] = read(t, page)
		}
	}
	return all
}

// anchors returns the anchors of a page's headings, as GitHub forms them.
func anchors(t *testing.T, page string) (all []string) {
	for _, match := range heading.FindAllStringSubmatch(read(t, page), -1) {
		text := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// project returns the paths of all files and folders, and the names of all tests. It also returns the ends of the paths, since
// a page may leave out a folder that it has just named.
func project(t *testing.T) (paths, tests map[string]bool) {
	paths, tests = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == "..":
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			for _, match := range declared.FindAllStringSubmatch(read(t, path), -1) {
				tests[match[1]] = true
			}
		}
		steps := strings.Split(filepath.ToSlash(path), "/")
		for i := range steps {
			paths[strings.Join(steps[i:], "/")] = true
		}
		return nil
	})
	must(t, err)
	return paths, tests
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

var (
	settingName = regexp.MustCompile(`KUBECDC_[A-Z_]*[A-Z]`)
	metricName  = regexp.MustCompile("`(kubecdc_[a-z_]+)")
)

func TestPagesNameSettingsAndMetricsThatExist(t *testing.T) {
	metrics := read(t, "../docs/monitoring.md")
	for page, text := range pages(t) {
		for _, name := range settingName.FindAllString(text, -1) {
			exists := func(s *Setting) bool { return s.Env == name || strings.HasPrefix(s.Env, name+"_") }
			forTests := strings.HasPrefix(name, "KUBECDC_TEST_") || strings.HasPrefix(name, "KUBECDC_CHAOS_")
			if !forTests && !slices.ContainsFunc(all, exists) {
				t.Errorf("%s names the setting %s, which does not exist", page, name)
			}
		}
		for _, match := range metricName.FindAllStringSubmatch(text, -1) {
			if name := match[1]; name != "kubecdc_log" && !strings.Contains(metrics, "\n- `"+name+"` (") {
				t.Errorf("%s names the metric %s, which docs/monitoring.md does not have", page, name)
			}
		}
	}
}

// The file map of docs/design.md is what go list prints of the packages' comments.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	comment := regexp.MustCompile(`(?m)^// .+\n(//.*\n)*package `)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == ".." {
			return err
		}
		if entry.Name()[0] == '.' || entry.Name() == "testdata" {
			return fs.SkipDir
		}
		code, err := filepath.Glob(path + "/*.go")
		says := func(file string) bool { return comment.MatchString(read(t, file)) }
		if len(code) > 0 && !slices.ContainsFunc(code, says) {
			t.Errorf("%s has no comment that says what the package is for", path)
		}
		return err
	})
	must(t, err)
}
