package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"kubecdc/internal/fault"
)

// column is a column of SQL that reads members out of JSON: one for each member that is no object, named by its path. A map, a
// list, and all of an object that is open, are JSON.
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

// flatten returns the columns of an object. taken are the names of columns that the statement has besides.
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
		at := append(path[:len(path):len(path)], member.Name)
		switch member.Type.Kind {
		case Record:
			f.record(member.Type, at)
		case Map, Array:
			f.add(at, JSON)
		default:
			f.add(at, member.Type.Kind)
		}
	}
}

func (f *flattener) add(path []string, kind Kind) {
	f.columns = append(f.columns, column{unique(f.names, strings.Join(path, "_"), maxName), path, kind})
}

// unique returns the name, cut to the limit, with a number if it is taken. It takes the name.
func unique(taken map[string]bool, name string, limit int) string {
	free := cut(name, limit)
	for n := 2; taken[free]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		free = cut(name, limit-len(suffix)) + suffix
	}
	taken[free] = true
	return free
}

// cut returns as many whole characters of the name as fit in so many bytes.
func cut(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	for !utf8.RuneStart(name[limit]) {
		limit--
	}
	return name[:limit]
}

// arrow returns the column's value out of a column of type json or jsonb, in the SQL of Postgres.
func (c *column) arrow(of string) string {
	for i, name := range c.path {
		arrow := " -> "
		if i == len(c.path)-1 && c.kind != JSON {
			arrow = " ->> "
		}
		of += arrow + quote("'", name)
	}
	return c.cast(of)
}

// cast returns a value's text in the column's type; null where it does not fit, since one error would take all rows from the view: an
// object may be older or newer than the schema, and have another type there. A number has at most 99 digits on each side, so that
// none is out of range.
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

// arrows returns the columns as they stand in a SELECT.
func arrows(columns []column, of string) string {
	var lines []string
	for _, c := range columns {
		lines = append(lines, "  "+c.arrow(of)+" AS "+quote(`"`, c.name))
	}
	return strings.Join(lines, ",\n")
}
