// Command prose checks that pages, comments, names, help texts and messages are plain English: short sentences, subject first,
// no retired words. make lint runs it.
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// maxWords is the longest sentence. What is in parentheses does not count, since a reader may skip it. Code counts as one word.
const maxWords = 25

// retired are everyday words that were used as terms. docs/design.md has the words to use.
var retired = regexp.MustCompile(`(?i)\b(whole|kept|look(s|ed)?|note[sd]?|(un)?told|apart|besides?|beyond|stay(s|ed)?|pulses?|hush|` +
	`touched|lessons|story|tellers?)\b`)

// turned are openings that put the object first, and phrases that leave the noun out.
var turned = regexp.MustCompile(`^(Of|Between (are|is)) |^(Those|That) (of|that|which|with) |^What .*\b(nobody|no one|nothing)\b|` +
	`^Who(ever)? [a-z]+s |\b([Tt]hose|[Tt]hat) of (a|all|an|each|the)\b|\bthe ones that\b`)

var (
	skipped = regexp.MustCompile("(?ms)^ *```.*?^ *```$|<!-- [^>]*\\bmake [^>]*-->.*?(<!-- up to here -->|\\z)") // code, and what a program writes
	inline  = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	aside   = regexp.MustCompile(`\([^()]*\)`)
	ends    = regexp.MustCompile(`[.?!]["*)]*(\s+|$)`)
	item    = regexp.MustCompile(`^\s*([-*>]|\d+\.|#+)\s+`)
	letter  = regexp.MustCompile(`[\pL\d]`)
)

// finding is a sentence that breaks a rule.
type finding struct {
	Line         int
	Rule, Phrase string
}

// check returns what breaks a rule in a page.
func check(page string) (all []finding) {
	page = skipped.ReplaceAllStringFunc(page, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
	page = link.ReplaceAllString(inline.ReplaceAllString(page, "X"), "$1")
	for _, b := range blocks(page) {
		for _, s := range ends.Split(strings.NewReplacer("**", "", "e.g. ", "").Replace(b.text), -1) {
			if rule := brokenRule(s, b.isCell); rule != "" {
				all = append(all, finding{b.line, rule, s})
			}
		}
	}
	return all
}

// brokenRule returns the rule that a sentence breaks, or "". A cell of a table may separate its parts by semicolons.
func brokenRule(s string, isCell bool) string {
	switch word := retired.FindString(s); {
	case word != "":
		return "the word " + word
	case turned.MatchString(s):
		return "the object comes first, or a noun is missing"
	case !isCell && strings.Contains(s, "; "):
		return "a semicolon hides a second sentence"
	}
	for part := range strings.SplitSeq(aside.ReplaceAllString(s, ""), "; ") {
		words := 0
		for word := range strings.FieldsSeq(part) {
			if letter.MatchString(word) {
				words++
			}
		}
		if words > maxWords {
			return fmt.Sprintf("%d words", words)
		}
	}
	return ""
}

// block is a paragraph, an item of a list, a heading, or a cell of a table.
type block struct {
	line   int
	text   string
	isCell bool
}

func blocks(page string) (all []block) {
	begins := true
	for i, line := range strings.Split(page, "\n") {
		switch {
		case !letter.MatchString(line): // blank, or a table's rule
			begins = true
		case strings.HasPrefix(line, "|"):
			for cell := range strings.SplitSeq(strings.Trim(line, "| "), " | ") {
				all = append(all, block{i + 1, cell, true})
			}
			begins = true
		case begins || item.MatchString(line):
			all = append(all, block{i + 1, item.ReplaceAllString(line, ""), false})
			begins = strings.HasPrefix(line, "#")
		default:
			all[len(all)-1].text += " " + strings.TrimSpace(line)
		}
	}
	return all
}

// checkFile returns what breaks a rule in a page or a Go file.
func checkFile(file string) ([]finding, error) {
	if strings.HasSuffix(file, ".go") {
		return checkSource(file)
	}
	page, err := os.ReadFile(file)
	return check(string(page)), err
}

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		all, err := checkFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		for _, f := range all {
			code = 1
			fmt.Printf("%s:%d: %s: %.150s\n", file, f.Line, f.Rule, f.Phrase)
		}
	}
	os.Exit(code)
}
