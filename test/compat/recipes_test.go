package compat

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/consumers.md from results.json")

// What the page shows is what make compat runs.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/consumers.md")
	must(t, err)
	for _, name := range []string{"console/kcat.sh", "console/kafka-console-consumer.sh"} {
		if !strings.Contains(string(page), "\n"+read(name)+"```\n") {
			t.Errorf("docs/consumers.md does not show test/compat/%s as it is", name)
		}
	}
	lake, err := os.ReadFile("../../docs/dashboards.md")
	must(t, err)
	for _, name := range []string{"duckdb/postgres.sql", "duckdb/lines.sql", "duckdb/objects.sql", "duckdb/iceberg.sql", "connect/iceberg.properties"} {
		if !strings.Contains(string(lake), "\n"+read(name)+"```\n") {
			t.Errorf("docs/dashboards.md does not show test/compat/%s as it is", name)
		}
	}
	command := "exporter schema pods --as connect --columns " + jdbcColumns + " > pods.properties\n"
	if !strings.Contains(string(page), command) {
		t.Errorf("docs/consumers.md lacks the command %s", command)
	}
	if example := "--columns " + flinkColumns + "\n"; !strings.Contains(string(page), example) {
		t.Errorf("docs/consumers.md lacks %q, which make compat runs", example)
	}
}

// The page is written from the results, and from what consumers.go says of the consumers.
func TestPage(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	page, err := os.ReadFile("../../docs/consumers.md")
	must(t, err)
	if *update {
		page = []byte(pageOf(r, page))
		must(t, os.WriteFile("../../docs/consumers.md", page, 0o644))
	}
	if string(page) != pageOf(r, page) {
		t.Error("docs/consumers.md is not what results.json and page.md.tmpl say; to write it: go test ./test/compat -short -args -update")
	}
}
