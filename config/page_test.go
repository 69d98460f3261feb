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
		t.Errorf("docs/settings.md is not what config.go says (%v): run make docs", err)
	}
}

// markdown is docs/settings.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("# Settings\n\n" +
		"Each setting is read from the environment, or from the flag of the same meaning, which wins. An empty value is the\n" +
		"same as none. All are checked at start; what is wrong is reported at once, and the exit code is then 2.\n\n" +
		"This page is made from `config/config.go` by `make docs`; a test checks that it is up to date.\n")
	group := ""
	for _, s := range all {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| setting | flag | value | default | |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", s.Env, s.Flag, cell(s.Kind()), code(s.Default), cell(s.Help+s.exampleText()))
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
	return "`" + text + "`"
}

// cell keeps a text from ending its table cell, or from being read as markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*.", `\*.`, ", *)", `, \*)`).Replace(text)
}
