package redact

import (
	"fmt"
	"strings"
)

// Path names fields of an object: "data.password", "spec.template.spec.containers.*.env.*.value". A dot within a name is escaped
// with a backslash, as in kubectl's JSONPath. * stands for every member or element. An array needs no step: the next name is
// searched in each of its elements.
type Path struct {
	text  string
	steps []step
}

type step struct {
	name string
	any  bool
}

func ParsePath(text string) (Path, error) {
	p := Path{text: text}
	var name strings.Builder
	escaped := false
	end := func() error {
		s := step{name: name.String()}
		s.any = s.name == "*" && !escaped
		switch {
		case s.name == "":
			return fmt.Errorf("%q has a step without a name", text)
		case strings.Contains(s.name, "*") && !s.any && !escaped:
			return fmt.Errorf("%q has a * next to other letters: it stands for a complete name", text)
		}
		p.steps = append(p.steps, s)
		name.Reset()
		escaped = false
		return nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			name.WriteByte(text[i])
			escaped = true
		case c == '\\' || strings.IndexByte("[]{}'\"$ ", c) >= 0:
			return p, fmt.Errorf(`%q has a %q: names are joined by dots, lists are passed through, and what belongs to a name has a backslash before it`, text, c)
		case c == '.':
			if err := end(); err != nil {
				return p, err
			}
		default:
			name.WriteByte(c)
		}
	}
	if err := end(); err != nil {
		return p, err
	}
	return p, p.allowed()
}

func (p Path) String() string { return p.text }

// identity lists the fields that identify an object. Each record has them in fields of its own too.
var identity = [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"},
	{"metadata", "resourceVersion"}}

// allowed returns an error if the path would hide a field that identifies the object.
func (p Path) allowed() error {
	for _, field := range identity {
		if p.covers(field) {
			return fmt.Errorf("%q would cover %s, which tells what a record is about", p.text, strings.Join(field, "."))
		}
	}
	return nil
}

func (p Path) covers(field []string) bool {
	if len(p.steps) > len(field) {
		return false
	}
	for i, s := range p.steps {
		if !s.any && s.name != field[i] {
			return false
		}
	}
	return true
}
