package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says which folders a folder imports, other than itself and internal/ (docs/design.md, "File map"). cmd/ imports all.
var mayImport = map[string][]string{
	"change":     nil,
	"audit":      {"change"},
	"redact":     nil,
	"schema":     {"change"},
	"source":     {"change", "redact"},
	"sinks":      {"audit", "change"},
	"query":      {"audit", "change", "sinks"},
	"checkpoint": {"change"},
	"export":     {"change", "checkpoint", "redact", "sinks", "source"},
	"verify":     {"change", "checkpoint", "redact", "sinks", "source"},
	"config":     {"redact"},
	"status":     {"change", "checkpoint", "export"},
	"observe":    {"audit", "change", "checkpoint", "export", "sinks", "source", "status"},
	"replay":     {"change", "checkpoint", "sinks"},
	"serve":      {"change", "query", "redact", "sinks"},
	"incident":   {"change", "query", "sinks"},
	"restore":    {"change", "query", "redact"},
	"ask":        {"change", "checkpoint", "config", "export", "setup", "source", "verify"},
	"rbac":       {"audit", "change", "checkpoint", "source"},
	"check":      {"change", "checkpoint", "config", "export", "setup", "sinks", "source"},
	"setup":      {"audit", "change", "checkpoint", "config", "export", "redact", "replay", "schema", "sinks", "source"},
}

// openPackages are the packages of source/ that other folders may import: streams, and what can be exported.
var openPackages = []string{"kubecdc/source/discovery", "kubecdc/source/reflector"}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "kubecdc/...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checked := 0
	for line := range strings.Lines(string(out)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder, imported := folderOf(from), folderOf(to)
		allowed, limited := mayImport[folder]
		if imported == "" || folder == imported || imported == "internal" {
			continue
		}
		if limited {
			checked++
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s: %s/ imports only %v", from, to, folder, allowed)
			}
		}
		if imported == "source" && folder != "test" && folder != "bench" && !slices.Contains(openPackages, to) {
			t.Errorf("%s imports %s: outside of source/ only %v may be imported", from, to, openPackages)
		}
	}
	if checked == 0 {
		t.Error("go list shows no import")
	}
}

// folderOf returns the first folder of one of the module's packages, or "" for other packages.
func folderOf(path string) string {
	path, ours := strings.CutPrefix(path, "kubecdc/")
	folder, _, _ := strings.Cut(path, "/")
	if !ours {
		return ""
	}
	return folder
}
