package lost

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// results are the table.
type results struct {
	Rows   []row
	Absent []string // what can't be had, and why
}

type row struct {
	Name     string
	Verdicts []verdict // by scenario
}

const (
	page  = "../../docs/comparison.md"
	begin = "<!-- make lost writes what follows -->\n"
	end   = "<!-- up to here -->\n"
)

// write puts the table into the page.
func (r results) write(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s lacks the comments %q and %q", page, begin, end)
	}
	must(t, os.WriteFile(page, []byte(before+begin+"\n"+r.table()+"\n"+end+after), 0o644))
}

// table has a row for each program, and a column for each scenario. Sinks of the exporter with the same figures share a row.
func (r results) table() string {
	head, line := "| program |", "|---|"
	for i, s := range scenarios {
		v := r.Rows[0].Verdicts[i]
		head += fmt.Sprintf(" %s: %d changes, %d deletions |", s.name, v.Changes, v.Deletes)
		line += "---|"
	}
	var names, figures []string
	for _, row := range r.Rows {
		name, same := row.Name, row.figures()
		if i := slices.Index(figures, same); i >= 0 {
			names[i] += "; " + name
			continue
		}
		names, figures = append(names, name), append(figures, same)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s does it say so? |\n%s---|\n", head, line)
	for i, name := range names {
		fmt.Fprintf(&b, "| %s | %s |\n", name, figures[i])
	}
	for _, why := range r.Absent {
		fmt.Fprintf(&b, "\nNot run: %s.\n", why)
	}
	return b.String()
}

// figures are the cells of a row: what was lost, missed and repeated in each scenario, and what says so.
func (r row) figures() string {
	var cells, says []string
	for _, v := range r.Verdicts {
		cells = append(cells, fmt.Sprintf("%d, %d, %d", v.Lost, v.Missed, v.Repeated))
		if v.Lost > 0 && !slices.Contains(says, v.Says) {
			says = append(says, v.Says)
		}
	}
	return strings.Join(append(cells, strings.Join(says, "; ")), " | ")
}
