package main

import (
	"maps"
	"os/exec"
	"path"
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
	"serve":      {"answer", "change", "page", "query", "redact", "sinks"},
	"page":       {"answer", "query"},
	"agent":      {"answer", "sinks"},
	"answer":     {"change", "incident", "query", "sinks"},
	"incident":   {"change", "query", "sinks"},
	"mirror":     {"audit", "change", "sinks"},
	"restore":    {"change", "query", "redact"},
	"ask":        {"change", "checkpoint", "config", "export", "setup", "source", "verify"},
	"rbac":       {"audit", "change", "checkpoint", "source"},
	"check":      {"change", "checkpoint", "config", "export", "setup", "sinks", "source"},
	"setup":      {"audit", "change", "checkpoint", "config", "export", "mirror", "redact", "replay", "schema", "sinks", "source"},
	"internal":   {"change"},
}

// mayImportWithin says which packages of its own folder a package below it imports. If one of a folder has a row, all have. What is below
// a package belongs to it, and the folder's own package imports all below it.
var mayImportWithin = map[string][]string{
	"query/difference": nil,
	"query/timeline":   nil,
	"query/who":        {"query/timeline"},

	"export/batching":   nil,
	"export/ownership":  nil,
	"export/rebuild":    nil,
	"export/live":       {"export/ownership"},
	"export/resharding": {"export/ownership"},
	"export/inventory":  {"export/batching", "export/live", "export/rebuild"},
	"export/commit":     {"export/batching", "export/inventory", "export/live", "export/plan"},
	"export/streams":    {"export/batching", "export/commit", "export/inventory", "export/plan"},
	"export/spooling":   {"export/batching", "export/commit", "export/inventory", "export/live", "export/plan"},
	"export/session": {"export/batching", "export/commit", "export/inventory", "export/live", "export/ownership", "export/plan",
		"export/resharding", "export/spooling", "export/streams"},
	"export/plan": {"export/batching", "export/inventory", "export/live", "export/ownership"},

	"sinks/encoding": {"sinks"},
	"sinks/kafka":    {"sinks", "sinks/encoding"},
	"sinks/postgres": {"sinks"},
	"sinks/sqlite":   {"sinks"},
	"sinks/stdout":   {"sinks"},
	"sinks/spool":    {"sinks", "sinks/sqlite"},
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
		checkWithin(t, from, to)
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

// checkWithin checks an import of a package below a folder whose packages have rows.
func checkWithin(t *testing.T, from, to string) {
	own, other := firstTwo(from), firstTwo(to)
	allowed, limited := mayImportWithin[own]
	isLimited := func(row string) bool { return path.Dir(row) == path.Dir(own) }
	switch {
	case !slices.ContainsFunc(slices.Collect(maps.Keys(mayImportWithin)), isLimited):
	case !limited:
		t.Errorf("%s has no row in mayImportWithin, and the others of %s/ have one", own, path.Dir(own))
	case own != other && folderOf(from) == folderOf(to) && !slices.Contains(allowed, other):
		t.Errorf("%s imports %s: of its own folder %s imports only %v", from, to, own, allowed)
	}
}

// firstTwo returns the first two folders of a package of the module.
func firstTwo(imported string) string {
	parts := strings.Split(imported, "/")
	return path.Join(parts[1:min(3, len(parts))]...)
}

// folderOf returns the first folder of one of the module's packages, or "" for other packages.
func folderOf(imported string) string {
	imported, ours := strings.CutPrefix(imported, "kubecdc/")
	folder, _, _ := strings.Cut(imported, "/")
	if !ours {
		return ""
	}
	return folder
}
