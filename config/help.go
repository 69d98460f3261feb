package config

import (
	"fmt"
	"strings"
)

// Usage is the part of --help about the settings, group by group, in lines of at most width characters.
func Usage(width int) string {
	var b strings.Builder
	group := ""
	for _, s := range all {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		left := "  --" + s.Flag + " " + s.Kind()
		if len(left) > width {
			left = "  --" + s.Flag + "\n      " + s.Kind()
		}
		b.WriteString(alignBoth(left, s.Env, width))
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

// alignBoth puts two texts at the two ends of a line, or on two lines if they don't fit on one.
func alignBoth(left, right string, width int) string {
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
