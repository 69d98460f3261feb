package lost

import (
	"fmt"
	"os"
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

func (r results) table() string {
	var b strings.Builder
	for i, s := range scenarios {
		fmt.Fprintf(&b, "**%s**: %s\n\n| program | changes lost | deletions missed | repeated | does it say so? |\n|---|--:|--:|--:|---|\n",
			strings.ToUpper(s.name[:1])+s.name[1:], r.truth(i))
		for _, row := range r.Rows {
			v := row.Verdicts[i]
			says := v.Says
			if v.Lost == 0 {
				says = "–"
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", row.Name, v.Lost, v.Missed, v.Repeated, says)
		}
		if i < len(scenarios)-1 {
			b.WriteString("\n")
		}
	}
	for _, why := range r.Absent {
		fmt.Fprintf(&b, "Not run: %s.\n", why)
	}
	return b.String()
}

func (r results) truth(i int) string {
	v := r.Rows[0].Verdicts[i]
	return fmt.Sprintf("%d changes, %d of them deletions.", v.Changes, v.Deletes)
}
