package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeOnPage = regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]+`")
	called     = regexp.MustCompile("(?:^|[`/$(|&] ?)exporter ([a-z][^\n|#;&`]*)")
	flagName   = regexp.MustCompile(` --([a-z][a-z-]*)`)
)

// Commands and flags that pages show exist.
func TestPagesShowCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	shown := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, code := range codeOnPage.FindAllString(string(text), -1) {
			code = strings.ReplaceAll(code, "\\\n", " ")
			for _, line := range strings.Split(code, "\n") {
				for _, call := range called.FindAllStringSubmatch(line, -1) {
					shown++
					wantCommand(t, page, call[1])
				}
			}
		}
	}
	if shown < 60 {
		t.Errorf("found %d commands", shown)
	}
}

func wantCommand(t *testing.T, page, line string) {
	root := newRoot(io.Discard, io.Discard)
	root.InitDefaultCompletionCmd("completion")
	c, _, err := root.Find(strings.Fields(line))
	if err != nil || !c.HasParent() {
		t.Errorf("%s shows exporter %s: %v", page, line, err)
		return
	}
	for _, match := range flagName.FindAllStringSubmatch(line, -1) {
		if match[1] != "help" && c.Flags().Lookup(match[1]) == nil {
			t.Errorf("%s shows exporter %s: %s has no flag --%s", page, line, c.Name(), match[1])
		}
	}
}
