package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestSettingsPageIsUpToDate(t *testing.T) {
	const page = "../docs/settings.md"
	if *update {
		must(t, os.WriteFile(page, []byte(markdown()), 0o644))
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != markdown() {
		t.Errorf("docs/settings.md differs from config.go (%v): run make docs", err)
	}
}

// markdown renders docs/settings.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("# Settings\n\n" +
		"Each setting is an environment variable, or a flag, which wins: `KUBECDC_PAGE_SIZE` is `--page-size`. An empty value\n" +
		"counts as not set. Most exporters need only `KUBECDC_RESOURCES`, `KUBECDC_SINK` with its address, and `KUBECDC_CHECKPOINT`.\n\n" +
		"A duration has a unit (500ms, 10s, 5m, 24h), a size may have one (64KiB, 8MiB), and a list has commas. The\n" +
		"text in parentheses after an entry is an example. Files of passwords, tokens and certificates can be replaced without a restart.\n\n" +
		"`make docs` makes this page from `config/config.go`.\n")
	group := ""
	for _, s := range all {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n", group)
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", s.Env, s.form(), escaped(s.Help+s.exampleText()))
	}
	return b.String()
}

func (s *Setting) exampleText() string {
	if s.Example == "" {
		return ""
	}
	return " (`" + s.Example + "`)"
}

// form is the kind of value, unless it is a text or the default shows it, and the default.
func (s *Setting) form() string {
	switch kind := s.Kind(); {
	case s.Default != "" && len(s.Values) == 0:
		return " (`" + s.Default + "`)"
	case s.Default != "":
		return " (" + kind + ", `" + s.Default + "`)"
	case kind != "text":
		return " (" + kind + ")"
	}
	return ""
}

// escaped is a text in which a star is a star.
func escaped(text string) string {
	return strings.NewReplacer("*.", `\*.`, ", *)", `, \*)`).Replace(text)
}
