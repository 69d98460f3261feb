package avro

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/avro"
)

// Grow extends the known schema by what the wanted one adds. It adds a field for each new member. If a member's type has changed,
// it adds another field, which is named by the new type (replicas, then replicas_string). Nothing is removed or renamed. So each
// of the two schemas reads what the other has written. grown is false if the known schema has everything. Then its text is
// returned unchanged.
func Grow(known, wanted string) (schema string, grown bool, err error) {
	if known == wanted {
		return known, false, nil
	}
	into, err := avro.Parse(known)
	if err != nil {
		return "", false, err
	}
	from, err := avro.Parse(wanted)
	if err != nil {
		return "", false, err
	}
	if _, err := Parse(known); err != nil {
		return "", false, err
	}
	old, now := into.Root(), from.Root().ExpandReferences()
	if old.Type != "record" || old.Name != now.Name || old.Namespace != now.Namespace {
		return "", false, fmt.Errorf("it is of %s %s.%s, and not of record %s.%s", old.Type, old.Namespace, old.Name,
			now.Namespace, now.Name)
	}
	g := grower{names: map[string]bool{}, known: map[string]*avro.SchemaNode{}}
	g.see(old)
	g.record(old, now)
	if !g.grown {
		return known, false, nil
	}
	all, err := old.Schema()
	if err != nil {
		return "", false, err
	}
	return all.String(), true, errors.Join(avro.CheckCompatibility(into, all), avro.CheckCompatibility(all, into))
}

type grower struct {
	names map[string]bool // names of all records
	known map[string]*avro.SchemaNode
	grown bool
}

// see records the names of the known schema's records.
func (g *grower) see(n *avro.SchemaNode) {
	if n.Type == "record" {
		g.names[n.Name], g.known[n.Name] = true, n
	}
	each(n, g.see)
}

// each visits the types within a type.
func each(n *avro.SchemaNode, visit func(*avro.SchemaNode)) {
	for i := range n.Branches {
		visit(&n.Branches[i])
	}
	for i := range n.Fields {
		visit(&n.Fields[i].Type)
	}
	for _, inner := range []*avro.SchemaNode{n.Items, n.Values} {
		if inner != nil {
			visit(inner)
		}
	}
}

// record adds the fields of one record to another.
func (g *grower) record(into, from *avro.SchemaNode) {
	for i := range from.Fields {
		f := &from.Fields[i]
		if _, extra := f.Props["open"].(bool); extra {
			g.extra(into, f)
			continue
		}
		known, names := false, map[string]bool{}
		for j := range into.Fields {
			existing := &into.Fields[j]
			names[existing.Name] = true
			if memberOf(existing) != memberOf(f) {
				continue
			}
			if typeName(&existing.Type) == typeName(&f.Type) {
				g.merge(&existing.Type, &f.Type)
				f = nil
				break
			}
			known = true
		}
		if f != nil {
			g.add(into, *f, names, known)
		}
	}
}

// extra sets whether a record may have other members, as the API allows now.
func (g *grower) extra(into *avro.SchemaNode, f *avro.SchemaField) {
	last := &into.Fields[len(into.Fields)-1]
	if was := last.Props["open"].(bool); was != f.Props["open"] {
		last.Props["open"] = f.Props["open"]
		g.grown = true
	}
}

// merge merges types with the same name. A record that several fields share grows for all of them.
func (g *grower) merge(into, from *avro.SchemaNode) {
	if known := g.known[into.Type[strings.LastIndexByte(into.Type, '.')+1:]]; known != nil {
		into = known
	}
	switch into.Type {
	case "union":
		g.merge(&into.Branches[1], &from.Branches[1])
	case "record":
		g.record(into, from)
	case "array":
		g.merge(into.Items, from.Items)
	case "map":
		g.merge(into.Values, from.Values)
	}
}

// add adds a field before _extra. changed means that its member already has fields of other types.
func (g *grower) add(into *avro.SchemaNode, f avro.SchemaField, names map[string]bool, changed bool) {
	name := f.Name
	if changed {
		name += "_" + typeName(&f.Type)
	}
	if free := unique(names, name); free != f.Name {
		f.Props = map[string]any{"json": memberOf(&f)}
		f.Name = free
	}
	g.rename(&f.Type)
	last := len(into.Fields) - 1
	into.Fields = append(into.Fields[:last:last], f, into.Fields[last])
	g.grown = true
}

// rename gives new records unique names.
func (g *grower) rename(n *avro.SchemaNode) {
	if n.Type == "record" {
		n.Name = unique(g.names, n.Name)
	}
	each(n, g.rename)
}

func unique(taken map[string]bool, name string) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s_%d", name, n)
	}
	taken[free] = true
	return free
}

// typeName returns the name of a type within a field's name. Types with the same name can be merged.
func typeName(n *avro.SchemaNode) string {
	switch n.Type {
	case "union":
		return typeName(&n.Branches[len(n.Branches)-1])
	case "array":
		return "array_" + typeName(n.Items)
	case "map":
		return "map_" + typeName(n.Values)
	}
	switch kindOf(n, text) {
	case jsonText:
		return "json"
	case intOrString:
		return "int_or_string"
	}
	if _, scalar := scalars[n.Type]; scalar {
		return n.Type
	}
	return "record" // or the name of a record
}
