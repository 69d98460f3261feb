package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"kubecdc/internal/fault"
)

// column is an SQL column that reads members from JSON. There is one for each member that is not an object, named by its path.
// Maps, lists and open objects are JSON.
type column struct {
	name string
	path []string
	kind Kind
}

// Limits of Postgres, and of databases that speak its SQL: bytes of a name, and columns of a view.
const (
	maxName    = 63
	maxColumns = 1600
)

// flatten returns the columns of an object. taken are the names of the statement's other columns.
func flatten(t *Type, taken ...string) ([]column, error) {
	f := flattener{names: map[string]bool{}}
	for _, name := range taken {
		f.names[name] = true
	}
	f.record(t, nil)
	if len(f.columns) > maxColumns {
		return nil, fault.Usagef("the schema has %d columns, more than the %d that a view can have: choose some with "+
			"--columns, or have some as JSON with --json", len(f.columns), maxColumns)
	}
	return f.columns, nil
}

type flattener struct {
	names   map[string]bool
	columns []column
}

func (f *flattener) record(t *Type, path []string) {
	if t.Open && len(path) > 0 {
		f.add(path, JSON)
	}
	for _, member := range t.Fields {
		memberPath := append(path[:len(path):len(path)], member.Name)
		switch member.Type.Kind {
		case Record:
			f.record(member.Type, memberPath)
		case Map, Array:
			f.add(memberPath, JSON)
		default:
			f.add(memberPath, member.Type.Kind)
		}
	}
}

func (f *flattener) add(path []string, kind Kind) {
	f.columns = append(f.columns, column{unique(f.names, strings.Join(path, "_"), maxName), path, kind})
}

// unique returns the name, cut to the limit, with a number if it is taken. Then the name is taken.
func unique(taken map[string]bool, name string, limit int) string {
	free := cut(name, limit)
	for n := 2; taken[free]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		free = cut(name, limit-len(suffix)) + suffix
	}
	taken[free] = true
	return free
}

// cut returns the beginning of a name, in characters, that fits in a number of bytes.
func cut(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	for !utf8.RuneStart(name[limit]) {
		limit--
	}
	return name[:limit]
}

// arrow returns the column's value from a column of type json or jsonb, in the SQL of Postgres.
func (c *column) arrow(from string) string {
	for i, name := range c.path {
		arrow := " -> "
		if i == len(c.path)-1 && c.kind != JSON {
			arrow = " ->> "
		}
		from += arrow + quote("'", name)
	}
	return c.cast(from)
}

// cast returns a value's text in the column's type, or null if it does not fit. An error in one row would fail the complete view,
// and an older or newer object may have another type in that place. A number has at most 99 digits on each side, so that none is
// out of range.
func (c *column) cast(text string) string {
	switch c.kind {
	case Integer:
		return "CASE WHEN " + text + " !~ '^-?[0-9]{1,19}$' THEN NULL\n    WHEN (" + text +
			")::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN (" + text + ")::bigint END"
	case Number:
		return "CASE WHEN " + text + " ~ '^-?[0-9]{1,99}([.][0-9]{1,99})?([eE][+-]?[0-9]{1,2})?$'\n    THEN (" + text +
			")::double precision END"
	case Boolean:
		return "CASE " + text + " WHEN 'true' THEN true WHEN 'false' THEN false END"
	}
	return text
}

// arrows returns the columns as the list of a SELECT.
func arrows(columns []column, from string) string {
	var lines []string
	for _, c := range columns {
		lines = append(lines, "  "+c.arrow(from)+" AS "+quote(`"`, c.name))
	}
	return strings.Join(lines, ",\n")
}
