package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// shortComment is the number of words up to which a comment inside a function is only checked for its opening.
const shortComment = 10

var (
	// preposition is a name that says nothing about its value. Bounds, such as from, to, since and until, are values.
	preposition = regexp.MustCompile(`^(?i:of|at|on|by|about|against|among|between|upon|beside|beyond|apart)$|^(is|as|with)$`)
	hump        = regexp.MustCompile(`\p{Lu}?[^\p{Lu}]+`)
	directive   = regexp.MustCompile(`(?m)^//(go:|nolint|line |export ).*$`)
	name        = regexp.MustCompile(`\b\w+(\.\w+)+\b|\b\w+\(\)|\b\w*_\w*\b|"[^"\n]*"|'[^'\n]*'|https?://[^\s)]*[^\s).]`)
	indented    = regexp.MustCompile(`(?m)^  .*$`)
	verb        = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)
	logs        = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true,
		"DebugContext": true, "InfoContext": true, "WarnContext": true, "ErrorContext": true}
	failures = map[string]bool{"Error": true, "Errorf": true, "Fatal": true, "Fatalf": true, "Log": true, "Logf": true, "Skip": true, "Skipf": true}
)

// source is a Go file whose texts and names are checked.
type source struct {
	fset  *token.FileSet
	doc   map[*ast.CommentGroup]string // doc comments, with the name that they begin with, or ""
	found []finding
}

// checkSource returns what breaks a rule in the comments, names, help texts and messages of a Go file.
func checkSource(file string) ([]finding, error) {
	s := source{fset: token.NewFileSet(), doc: map[*ast.CommentGroup]string{}}
	f, err := parser.ParseFile(s.fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return nil, err
	}
	isTest := strings.HasSuffix(file, "_test.go")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.declaration(n.Doc, n.Name, isTest)
		case *ast.GenDecl:
			s.declarations(n)
		case *ast.Field:
			s.field(n)
		case *ast.AssignStmt:
			s.variables(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			s.variables(n.Tok, n.Key, n.Value)
		case *ast.CallExpr:
			s.call(n)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Short" || key.Name == "Long") {
				s.message(n.Value)
			}
		}
		return true
	})
	s.doc[f.Doc] = ""
	for _, c := range f.Comments {
		s.comment(c)
	}
	return s.found, nil
}

// declaration checks a function's or a type's name, and that its comment begins with it. A test's name says what it tests.
func (s *source) declaration(doc *ast.CommentGroup, name *ast.Ident, isTest bool) {
	s.name(name)
	if doc == nil {
		return
	}
	s.doc[doc] = name.Name
	text := strings.TrimPrefix(strings.TrimPrefix(doc.Text(), "A "), "An ")
	if !isTest && text != "" && name.Name != "init" && !strings.HasPrefix(text, name.Name) {
		s.report(doc.Pos(), "the comment does not begin with "+name.Name, text)
	}
}

func (s *source) declarations(d *ast.GenDecl) {
	s.doc[d.Doc] = ""
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			s.declaration(doc, spec.Name, false)
		case *ast.ValueSpec:
			s.doc[spec.Doc] = spec.Names[0].Name
			for i, name := range spec.Names {
				s.name(name)
				if strings.HasSuffix(strings.ToLower(name.Name), "help") && i < len(spec.Values) {
					s.message(spec.Values[i])
				}
			}
		}
	}
}

// field checks a field, a parameter or a method of an interface. The name of a field with a tag is a format's.
func (s *source) field(f *ast.Field) {
	if f.Tag != nil {
		tag, _ := strconv.Unquote(f.Tag.Value)
		s.text(f.Tag.Pos(), reflect.StructTag(tag).Get("help"))
		return
	}
	for _, name := range f.Names {
		s.doc[f.Doc] = name.Name
		s.name(name)
	}
}

func (s *source) variables(assigned token.Token, left ...ast.Expr) {
	if assigned != token.DEFINE {
		return
	}
	for _, e := range left {
		if name, ok := e.(*ast.Ident); ok {
			s.name(name)
		}
	}
}

// call checks the message of an error, of a log's line, or of a test.
func (s *source) call(c *ast.CallExpr) {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	from, _ := f.X.(*ast.Ident)
	isError := from != nil && (from.Name == "fmt" && f.Sel.Name == "Errorf" || from.Name == "errors" && f.Sel.Name == "New")
	if !isError && !logs[f.Sel.Name] && !failures[f.Sel.Name] {
		return
	}
	for _, arg := range c.Args[:min(2, len(c.Args))] {
		s.message(arg)
	}
}

// message checks a text that is a literal, or the literals of a sum.
func (s *source) message(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		s.message(e.X)
		s.message(e.Y)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			s.text(e.Pos(), text)
		}
	}
}

// text checks a message or a help text, whose parts semicolons and colons may separate. Indented lines are examples and tables.
func (s *source) text(pos token.Pos, text string) {
	text = indented.ReplaceAllString(text, "")
	text = name.ReplaceAllString(verb.ReplaceAllString(text, "X"), "X")
	for _, b := range blocks(inline.ReplaceAllString(text, "X")) {
		for _, sentence := range ends.Split(strings.ReplaceAll(b.text, ": ", "; "), -1) {
			if rule := brokenRule(sentence, true); rule != "" {
				s.report(pos, rule, sentence)
			}
		}
	}
}

// comment checks all of a doc comment and of a comment above ten words, and only the opening of a short one.
func (s *source) comment(c *ast.CommentGroup) {
	documented, isDoc := s.doc[c]
	text := ""
	for _, line := range c.List {
		if !directive.MatchString(line.Text) && !strings.HasPrefix(line.Text, "//\t") {
			text += strings.TrimPrefix(strings.TrimPrefix(line.Text, "//"), " ") + "\n"
		}
	}
	if documented != "" && strings.HasPrefix(text, documented) {
		text = "X" + strings.TrimPrefix(text, documented)
	}
	if !isDoc && len(strings.Fields(text)) <= shortComment {
		if turned.MatchString(capital(text)) {
			s.report(c.Pos(), "the object comes first, or a noun is missing", text)
		}
		return
	}
	for _, f := range check(name.ReplaceAllString(capital(text), "X")) {
		s.report(c.Pos(), f.Rule, f.Phrase)
	}
}

// name checks an identifier that is declared.
func (s *source) name(n *ast.Ident) {
	if preposition.MatchString(n.Name) {
		s.report(n.Pos(), "a preposition is no name", n.Name)
		return
	}
	for _, word := range hump.FindAllString(n.Name, -1) {
		if retired.MatchString(word) {
			s.report(n.Pos(), "the word "+strings.ToLower(word)+" in a name", n.Name)
		}
	}
}

func (s *source) report(pos token.Pos, rule, phrase string) {
	s.found = append(s.found, finding{s.fset.Position(pos).Line, rule, strings.TrimSpace(phrase)})
}

func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
