package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Names and contents of objects reach a terminal only through internal/plain, which escapes control characters. So all code
// prints through it, or through write with text that it has made.
func TestWhateverIsPrintedIsEscaped(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go", "../../status/table.go", "../../sinks/stdout/text.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	calls := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			called, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from, _ := called.X.(*ast.Ident)
			switch {
			case from == nil:
			case from.Name == "plain":
				calls++
			case from.Name == "fmt" && (strings.HasPrefix(called.Sel.Name, "Fprint") || strings.HasPrefix(called.Sel.Name, "Print") ||
				strings.HasPrefix(called.Sel.Name, "Append")), from.Name == "io" && called.Sel.Name == "WriteString" && filepath.Base(name) != "output.go":
				t.Errorf("%s: %s.%s prints what others wrote as it is: use internal/plain", set.Position(n.Pos()), from.Name, called.Sel.Name)
			}
			return true
		})
	}
	if calls < 50 {
		t.Errorf("only %d calls of internal/plain were found", calls)
	}
}
