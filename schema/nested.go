package schema

import "strings"

// nested writes types for SQL with types for objects, maps and lists.
type nested struct {
	record string // the name of the type for objects
	colon  string // between a member's name and its type
}

// lineWidth is the width from which an object's type is spread over several lines.
const lineWidth = 110

// text returns the type's text. Its first line begins in the column used, all others with the indent.
func (n nested) text(t *Type, indent string, used int) string {
	if line := n.line(t); used+len(line) <= lineWidth {
		return line
	}
	switch t.Kind {
	case Map:
		return "MAP<STRING, " + n.text(t.Elem, indent, used+12) + ">"
	case Array:
		return "ARRAY<" + n.text(t.Elem, indent, used+6) + ">"
	case Record:
		return n.record + "<\n" + n.members(t, indent+"  ") + "\n" + indent + ">"
	}
	return n.line(t)
}

// members returns one or more lines for each member.
func (n nested) members(t *Type, indent string) string {
	var lines []string
	for _, f := range t.Fields {
		name := quote("`", f.Name) + n.colon
		lines = append(lines, indent+name+n.text(f.Type, indent, len(indent)+len(name)+1))
	}
	return strings.Join(lines, ",\n")
}

func (n nested) line(t *Type) string {
	switch t.Kind {
	case Integer:
		return "BIGINT"
	case Number:
		return "DOUBLE"
	case Boolean:
		return "BOOLEAN"
	case Map:
		return "MAP<STRING, " + n.line(t.Elem) + ">"
	case Array:
		return "ARRAY<" + n.line(t.Elem) + ">"
	case Record:
		var members []string
		for _, f := range t.Fields {
			members = append(members, quote("`", f.Name)+n.colon+n.line(f.Type))
		}
		return n.record + "<" + strings.Join(members, ", ") + ">"
	}
	return "STRING"
}
