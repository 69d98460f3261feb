package main

import (
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	long := strings.Repeat("word ", maxWords+1)
	for page, want := range map[string]string{
		"The log stores a body. It is complete.\n":            "",
		"A link [of\n" + long + "](x.md) in code.\n":          "31 words",
		"```\nOf an object; " + long + "\n```\n":              "",
		"Of an object the log has a body.\n":                  "the object comes first",
		"A list that is kept.\n":                              "the word kept",
		"It writes those of each name.\n":                     "a noun is missing",
		"It writes; it reads.\n":                              "a semicolon",
		"| it writes; it reads | `it is kept; " + long + "`|": "",
		"- " + long + "\n- short\n":                           "26 words",
		"# Title\n" + long + "\n":                             "26 words",
		"It reads (" + long + ").\n":                          "",
		"<!-- make docs -->\nOf an object.\n":                 "",
		"It reads v1.2.3 of `a. b` again, e.g. pods.\n":       "",
	} {
		all := check(page)
		switch {
		case want == "" && len(all) > 0:
			t.Errorf("%q: found %v", page, all)
		case want != "" && (len(all) != 1 || !strings.Contains(all[0].Rule, want)):
			t.Errorf("%q: found %v, not %q", page, all, want)
		}
	}
}
