package incident

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/internal/cells"
)

// steady are the columns with the condition of an object, without its identity and age.
var steady = []string{"Status", "Ready", "Up-to-date", "Available", "Restarts", "Desired", "Current", "Completions", "Active",
	"Suspend", "Replicas"}

// leading returns the column that says best how objects of a resource are, or nil.
func leading(resource string) *cells.Column {
	columns := cells.BuiltIn()[resource]
	for _, name := range []string{"Status", "Ready", "Completions"} {
		if i := slices.IndexFunc(columns, func(c cells.Column) bool { return c.Name == name }); i >= 0 {
			return &columns[i]
		}
	}
	return nil
}

// see records what the leading column shows of a state, if that is new.
func (o *object) see(body []byte) {
	c := leading(o.resource)
	if c == nil || body == nil {
		return
	}
	now := shown(c.Cell(&cells.Row{Object: cells.Decoded(body), Now: o.to}))
	if len(o.seen) == 0 || o.seen[len(o.seen)-1] != now {
		o.seen = append(o.seen, now)
	}
}

// way returns how a column changed: first, worst, last. The worst of numbers such as 2/3 is the lowest. The worst of other texts
// is one that differs from the first and the last.
func way(seen []string) string {
	first, last := seen[0], seen[len(seen)-1]
	worst := first
	for _, text := range seen[1 : len(seen)-1] {
		var n, least int
		isNumber, _ := fmt.Sscanf(text, "%d/", &n)
		_, _ = fmt.Sscanf(worst, "%d/", &least)
		if isNumber == 1 && n < least || isNumber == 0 && text != first && text != last {
			worst = text
		}
	}
	if worst == first || worst == last {
		return first + " → " + last
	}
	return first + " → " + worst + " → " + last
}

// transition returns the columns of kubectl get in which the first and the last state of an object differ. The leading column
// also shows the states in between. For an object that did not exist before, only its status is returned.
func transition(o *object) (all []string) {
	columns, first := cells.BuiltIn()[o.resource], leading(o.resource)
	if columns == nil || o.last == nil {
		return nil
	}
	before, after := &cells.Row{Object: cells.Decoded(o.first), Now: o.to}, &cells.Row{Object: cells.Decoded(o.last), Now: o.to}
	for _, c := range columns {
		if !slices.Contains(steady, c.Name) {
			continue
		}
		was, now := "", shown(c.Cell(after))
		if o.first != nil {
			was = shown(c.Cell(before))
		}
		isFirst, name := first != nil && c.Name == first.Name, strings.ToLower(c.Name)+" "
		if c.Name == "Status" {
			name = ""
		}
		switch {
		case isFirst && o.first == nil && name == "":
			all = append(all, "now "+now)
		case o.first == nil:
		case isFirst && len(o.seen) > 1:
			all = append(all, name+way(o.seen))
		case now != was && !isFirst:
			all = append(all, name+was+" → "+now)
		}
	}
	return all
}

// shown returns a cell as text, without an age in parentheses.
func shown(v any) string {
	text, _, _ := strings.Cut(cells.TextOf(v), " (")
	return text
}
