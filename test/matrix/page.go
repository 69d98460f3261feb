package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// mark is what the section on versions follows, which is the last of the page; the rest is make compat's.
const mark = "<!-- make matrix writes what follows -->\n"

const head = `
` + "`make matrix`" + ` builds each of these versions of kube-apiserver with its etcd, and runs on it the tests whose outcome depends on the
API server. ` + "`make test`" + ` runs all tests on the newest. Older versions are not tested.

`

func write(page string, all []*result) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	others, _, found := bytes.Cut(text, []byte(mark))
	if !found {
		return fmt.Errorf("%s lacks the line %s", page, mark)
	}
	return os.WriteFile(page, slices.Concat(others, []byte(mark), section(all)), 0o644)
}

func section(all []*result) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	row(&b, all, "", func(r *result) string { return r.Version })
	b.WriteString("|---" + strings.Repeat("|---", len(all)) + "|\n")
	row(&b, all, "etcd", func(r *result) string { return r.Etcd })
	for _, s := range suites {
		row(&b, all, s.Name, func(r *result) string {
			if o := r.Suites[s.Name]; o != nil {
				return fmt.Sprintf("%d passed", o.Passed)
			}
			return "not run"
		})
	}
	row(&b, all, "failed", func(r *result) string { return cmp.Or(r.failed(), "none") })
	row(&b, all, "skipped", func(r *result) string { return cmp.Or(r.of(func(o *outcome) []string { return o.Skipped }), "none") })
	row(&b, all, "run on", func(r *result) string { return r.Date })
	return b.Bytes()
}

func row(b *bytes.Buffer, all []*result, name string, cell func(*result) string) {
	fmt.Fprintf(b, "| %s |", name)
	for _, r := range all {
		fmt.Fprintf(b, " %s |", cell(r))
	}
	b.WriteByte('\n')
}
