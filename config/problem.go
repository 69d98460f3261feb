package config

import (
	"fmt"
	"strings"

	"kubecdc/internal/plain"
)

// Problem is one wrong setting, and how to fix it.
type Problem struct {
	Setting string // the name in the environment
	Value   string // the given value, or empty if it was not set or must not be shown
	What    string // what is wrong
	Fix     string // what to do
}

func (p Problem) String() string {
	name := p.Setting
	if s := byEnv[p.Setting]; s != nil {
		name += " (--" + s.Flag + ")"
	}
	if p.Value != "" {
		name += fmt.Sprintf(" = %q", plain.Redact(p.Value))
	}
	return fmt.Sprintf("%s: %s\n      %s", name, plain.Redact(p.What), p.Fix)
}

// Error lists every wrong setting. The program exits with code 2.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	var b strings.Builder
	wrong := map[string]bool{}
	for _, p := range e.Problems {
		wrong[p.Setting] = true
	}
	if len(wrong) == 1 {
		b.WriteString("1 setting is wrong:\n")
	} else {
		fmt.Fprintf(&b, "%d settings are wrong:\n", len(wrong))
	}
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}
