package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

const head = `# Versions of Kubernetes

<!-- make matrix writes this page -->

` + "`make matrix`" + ` builds each of these versions of kube-apiserver with its etcd, and runs on it the tests whose outcome depends on the
API server. ` + "`make test`" + ` runs all tests on the newest. Older versions are not tested.

`

// page is docs/matrix.md.
func page(all []*result) []byte {
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
	b.WriteString("\nWhat the servers have of the features that the exporter uses, or could, as their metric `kubernetes_feature_enabled` says\n(–: the server has no such gate. It comes in a later version, or the feature can't be switched off any more):\n\n")
	row(&b, all, "feature", func(r *result) string { return r.Version })
	b.WriteString("|---" + strings.Repeat("|---", len(all)) + "|\n")
	for _, gate := range gates {
		row(&b, all, "`"+gate+"`", func(r *result) string { return cmp.Or(r.Gates[gate], "–") })
	}
	return b.Bytes()
}

func row(b *bytes.Buffer, all []*result, name string, cell func(*result) string) {
	fmt.Fprintf(b, "| %s |", name)
	for _, r := range all {
		fmt.Fprintf(b, " %s |", cell(r))
	}
	b.WriteByte('\n')
}
