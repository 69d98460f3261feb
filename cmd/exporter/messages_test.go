package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// noMessage matches quotes of docs/operations.md that are no messages of the exporter.
var noMessage = regexp.MustCompile(`^(exporter |etcdutl |signals list$|complete: (true|false)$)`)

// varies matches the parts of quotes that are values, or that come from other programs: an API server, Kafka, Postgres,
// PgBouncer, Go's library.
var varies = regexp.MustCompile(`(CA|uid) …|…|http://|"[^"]*"|\S*\d\S*|PREFIX|CN=|SASL Authentication Failed|` +
	`(Topic|Group|Transactional ID) Authorization Failed|certificate signed by unknown authority|lock timeout|unexpected EOF|` +
	`connection timed out|must be owner of table|password authentication failed|unsupported startup parameter|` +
	`transaction blocks not allowed|corrupt object|object not decodable`)

// verdict matches what happens to the data.
var verdict = regexp.MustCompile(`\*\*(Safe|Waiting|Gap|Stopped|Dead letter|Not exported)\b`)

// Users search docs/operations.md for a message. So each message that the page quotes is in the source, and each entry has a
// verdict.
func TestThePageOfOperationsQuotesTheSource(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	known, quotes := readPieces(t), 0
	all := strings.Join(known, "\n")
	inTicks := regexp.MustCompile("`([^`]+)`")
	for _, entry := range strings.Split(string(page), "\n### ")[1:] {
		entry, _, _ = strings.Cut(entry, "\n## ")
		message, meaning, _ := strings.Cut(entry, "\n\n")
		if !verdict.MatchString(meaning) {
			t.Errorf("docs/operations.md does not say whether data is at risk: %s", message)
		}
		for _, q := range inTicks.FindAllStringSubmatch(message, -1) {
			if !strings.Contains(q[1], " ") || noMessage.MatchString(q[1]) {
				continue
			}
			quotes++
			for _, part := range varies.Split(q[1], -1) {
				if part = strings.Trim(part, ` .,:;()'"`); strings.Contains(part, " ") && !strings.Contains(all, part) && !known.join(part) {
					t.Errorf("nothing says %q, which docs/operations.md quotes", part)
				}
			}
		}
	}
	if quotes < 80 {
		t.Errorf("only %d quotes were found", quotes)
	}
}

// pieces are the parts of all messages between the values in them.
type pieces []string

// join reports whether a text is the end of one piece, then other pieces, the last of which may be cut off.
func (p pieces) join(text string) bool {
	return slices.ContainsFunc(p, func(piece string) bool {
		for n := len(text) - 1; n > 0; n-- {
			if strings.HasSuffix(piece, text[:n]) {
				return p.begin(text[n:])
			}
		}
		return false
	})
}

// begin reports whether a text is the beginning of joined pieces.
func (p pieces) begin(text string) bool {
	return slices.ContainsFunc(p, func(piece string) bool {
		return strings.HasPrefix(piece, text) || strings.HasPrefix(text, piece) && p.begin(text[len(piece):])
	})
}

func readPieces(t *testing.T) (all pieces) {
	t.Helper()
	verb := regexp.MustCompile(`%[-+# 0]*[\d.]*[a-z]`)
	add := func(text string) {
		for _, piece := range verb.Split(text, -1) {
			if strings.Contains(strings.TrimSpace(piece), " ") || len(piece) > 4 {
				all = append(all, piece)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 ||
			slices.Contains([]string{"test", "bench", "tools", "bin", "sinktest", "checkpointtest"}, entry.Name())):
			return filepath.SkipDir
		case filepath.Ext(path) == ".sql":
			text, err := os.ReadFile(path)
			add(string(text))
			return err
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := literal(e)
			if ok {
				for _, part := range strings.Split(text, "\x00") {
					add(part)
				}
			}
			return !ok
		})
		return nil
	})
	must(t, err)
	return all
}

// literal returns the text of a literal, or of a sum with literals, with a zero byte for each other term.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		a, isA := literal(e.X)
		b, isB := literal(e.Y)
		if e.Op == token.ADD && (isA || isB) {
			return a + b, true
		}
	}
	return "\x00", false
}
