package config

import (
	"fmt"
	"strings"
)

// Usage explains every setting, group by group, for --help. Lines are at most width characters long.
func Usage(width int) string {
	var b strings.Builder
	group := ""
	for _, s := range all {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		b.WriteString(beside("  --"+s.Flag+" "+s.Kind(), s.Env, width))
		for _, line := range wrap(s.Help+s.defaultText(), width-6) {
			b.WriteString("      " + line + "\n")
		}
		if s.Example != "" {
			b.WriteString("      e.g. " + s.Example + "\n")
		}
	}
	return b.String()
}

func (s *Setting) defaultText() string {
	if s.Default == "" {
		return ""
	}
	return " [" + s.Default + "]"
}

// beside puts two texts at the two ends of a line, or of two lines where they don't fit on one.
func beside(left, right string, width int) string {
	if len(left)+2+len(right) > width {
		return left + "\n" + strings.Repeat(" ", width-len(right)) + right + "\n"
	}
	return left + strings.Repeat(" ", width-len(left)-len(right)) + right + "\n"
}

func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// Markdown is docs/settings.md.
func Markdown() string {
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
