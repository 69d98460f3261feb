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
		if err := os.WriteFile(page, []byte(markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
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
		"Each setting is read from its environment variable, or from its flag, which wins: `KUBECDC_PAGE_SIZE` is `--page-size`.\n" +
		"An empty value counts as not set. All problems are reported together, with exit code 2.\n\n" +
		"Most exporters need only `KUBECDC_RESOURCES`, `KUBECDC_SINK` with its address, and `KUBECDC_CHECKPOINT`.\n\n" +
		"A duration is a number with a unit (500ms, 10s, 5m, 24h); a size is a number of bytes, or has a unit (64KiB, 8MiB).\n" +
		"A list has commas between its entries. Files of passwords, tokens and certificates are read for each login or\n" +
		"connection, so they can be replaced without a restart.\n\n" +
		"`make docs` makes this page from `config/config.go`.\n")
	group := ""
	for _, s := range all {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n", group)
		}
		fmt.Fprintf(&b, "- `%s` (%s%s): %s\n", s.Env, s.Kind(), code(s.Default), escaped(s.Help+s.exampleText()))
	}
	return b.String()
}

func (s *Setting) exampleText() string {
	if s.Example == "" {
		return ""
	}
	return " E.g. `" + s.Example + "`"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return ", `" + text + "`"
}

// escaped is a text in which a star is a star.
func escaped(text string) string {
	return strings.NewReplacer("*.", `\*.`, ", *)", `, \*)`).Replace(text)
}
