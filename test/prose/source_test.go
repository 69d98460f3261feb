package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoSources(t *testing.T) {
	long := strings.Repeat("word ", maxWords+1)
	for code, want := range map[string]string{
		"// Between returns the ends.\nfunc Between() {}\n":                                 "a preposition is no name",
		"// Is reports whether both are of one kind.\nfunc (e err) Is() {}\n":               "",
		"// returns the ends.\nfunc ends() {}\n":                                            "does not begin with ends",
		"// ends returns those of each slot.\nfunc ends() {}\n":                             "a noun is missing",
		"// ends returns a, or \"those of each; kept\".\nfunc ends() {}\n":                  "",
		"// ends returns " + long + "\nfunc ends() {}\n":                                    "28 words",
		"// ends is:\n//\n//\t" + long + "\nfunc ends() {}\n":                               "",
		"var keptBodies int // of a slot\n":                                                 "the word kept in a name",
		"type t struct {\n\tn int // of a slot\n}\n":                                        "the object comes first",
		"type t struct {\n\tn int // slots; nil\n}\n":                                       "",
		"type t struct {\n\tn int // " + long + "; nil\n}\n":                                "a semicolon",
		"type t struct {\n\tOf int `json:\"of\"`\n}\n":                                      "",
		"type t struct {\n\tn int `help:\"How long it is kept.\"`\n}\n":                     "the word kept",
		"func f() { fmt.Errorf(\"read %s: it is \"+\"kept: %w\", s, err) }\n":               "the word kept",
		"func f() { fmt.Errorf(\"read %s; then write\", s) }\n":                             "",
		"func f() { log.Warn(\"those of each are gone\") }\n":                               "a noun is missing",
		"func f() { t.Error(\"it is kept\") }\n":                                            "the word kept",
		"func f() { t.Fatalf(\"%s: those of each\", s) }\n":                                 "a noun is missing",
		"func f() { for _, kept := range all { b(kept) } }\n":                               "the word kept in a name",
		"var c = cobra.Command{Short: \"List what is kept\"}\n":                             "the word kept",
		"//go:generate kept those of each and more and more and more and more\nvar a int\n": "",
	} {
		file := filepath.Join(t.TempDir(), "a.go")
		if err := os.WriteFile(file, []byte("package a\n\n"+code), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := checkSource(file)
		rules := ""
		for _, f := range all {
			rules += f.Rule + "\n"
		}
		if err != nil || (want == "") != (rules == "") || !strings.Contains(rules, want) {
			t.Errorf("%s: found %v (%v), not %q", code, all, err, want)
		}
	}
}
