package setup

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubecdc/config"
)

func TestTheTableHasEverySinkThatCanBeSet(t *testing.T) {
	var names []string
	for _, e := range sinkTable {
		names = append(names, e.Name)
	}
	i := slices.IndexFunc(config.Settings(), func(s *config.Setting) bool { return s.Env == "KUBECDC_SINK" })
	if values := config.Settings()[i].Values; !slices.Equal(values, names) {
		t.Errorf("the table has %v, and KUBECDC_SINK can be %v", names, values)
	}
	for _, s := range config.Settings() {
		sinks, isSinks := strings.CutPrefix(s.With, "KUBECDC_SINK=")
		for name := range strings.SplitSeq(sinks, ",") {
			if isSinks && !slices.Contains(names, name) {
				t.Errorf("%s has an effect with KUBECDC_SINK=%s, and the table has no such sink", s.Env, name)
			}
		}
	}
}

// A sink decides nothing by its name outside of its folder, the table and its settings. What is special about it is a field of Kind or
// of its row.
func TestNothingDecidesByASinksName(t *testing.T) {
	for path, file := range productFiles(t) {
		for _, found := range decisionsByName(file) {
			t.Errorf("%s decides by the name of a sink, %s", path, found)
		}
	}
}

// productFiles are the syntax trees of the product's Go files, outside of the sinks' own folders, the table and the settings.
func productFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"../test", "../bench", "../tools", "../config", "../bin", "../.servers", "../.git"}, path),
			d.IsDir() && filepath.Dir(path) == "../sinks" && d.Name() != "encoding" && d.Name() != "spool":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && path != "../setup/sinks.go":
			files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0)
		}
		return err
	})
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// decisionsByName finds comparisons and switches with the value of KUBECDC_SINK, or with the name of a Kind.
func decisionsByName(file *ast.File) (found []string) {
	named := func(e ast.Expr) bool {
		selector, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		outer, ok := selector.X.(*ast.SelectorExpr)
		return ok && (outer.Sel.Name == "Sink" && selector.Sel.Name == "Kind" || outer.Sel.Name == "Kind" && selector.Sel.Name == "Name")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (named(n.X) || named(n.Y)) {
				found = append(found, n.Op.String())
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && named(n.Tag) {
				found = append(found, "switch")
			}
		}
		return true
	})
	return found
}

func TestDecisionsByASinksNameAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`if c.Sink.Kind != kafka.Kind.Name {}`:           1,
		`switch settings.Sink.Kind { case "postgres": }`: 1,
		`name := "KUBECDC_SINK=" + c.Sink.Kind`:          0,
		`print(c.Sink.Kind)`:                             0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; func f() { "+text+" }", 0)
		must(t, err)
		if found := decisionsByName(file); len(found) != want {
			t.Errorf("%s: %q, want %d", text, found, want)
		}
	}
}
