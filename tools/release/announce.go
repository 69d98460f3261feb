package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// announced demands that the repository is of this version: the CHANGELOG has its heading with a date, and the manifests have its
// image. A pre-release, such as v1.2.3-rc.1, needs neither.
func (r *release) announced() error {
	if strings.Contains(r.version, "-") {
		return nil
	}
	for file, line := range map[string]string{
		"CHANGELOG.md":            "## " + r.chartVersion() + " - YYYY-MM-DD",
		"deploy/chart/Chart.yaml": "appVersion: " + r.version,
		"deploy/examples/kafka-postgres/kustomization.yaml": "    newTag: " + r.version,
	} {
		text, err := os.ReadFile(filepath.Join(r.root, file))
		if err != nil {
			return err
		}
		want := strings.Replace(regexp.QuoteMeta(line), "YYYY-MM-DD", `\d{4}-\d\d-\d\d`, 1)
		if !regexp.MustCompile("(?m)^" + want + "$").Match(text) {
			return fmt.Errorf("%s lacks the line %q: put it in place of the last version's (the steps are in docs/releasing.md)", file, line)
		}
	}
	return nil
}
