package avro

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/avro"
)

// Grow returns the known schema with what the wanted one has besides: a field for each new member, and one more for a member whose
// type has changed, named by its new type (replicas, then replicas_string). Nothing is removed or renamed. So each of the two
// schemas reads what the other one has written. grown is false if the known one has it all: then its text is returned unchanged.
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
		return "", false, fmt.Errorf("it is of %s %s.%s, and not of record %s.%s", old.Type, old.Namespace, old.Name, now.Namespace, now.Name)
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
	names map[string]bool // of all records
	known map[string]*avro.SchemaNode
	grown bool
}

// see remembers the records of the known schema.
func (g *grower) see(n *avro.SchemaNode) {
	if n.Type == "record" {
		g.names[n.Name], g.known[n.Name] = true, n
	}
	each(n, g.see)
}

// each visits the types that a type is made of.
func each(n *avro.SchemaNode, visit func(*avro.SchemaNode)) {
	for i := range n.Branches {
		visit(&n.Branches[i])
	}
	for i := range n.Fields {
		visit(&n.Fields[i].Type)
	}
	for _, of := range []*avro.SchemaNode{n.Items, n.Values} {
		if of != nil {
			visit(of)
		}
	}
}

// record adds the fields of one record to another one.
func (g *grower) record(into, from *avro.SchemaNode) {
	for i := range from.Fields {
		f := &from.Fields[i]
		if _, extra := f.Props["open"].(bool); extra {
			g.extra(into, f)
			continue
		}
		known, names := false, map[string]bool{}
		for j := range into.Fields {
			of := &into.Fields[j]
			names[of.Name] = true
			if memberOf(of) != memberOf(f) {
				continue
			}
			if typeName(&of.Type) == typeName(&f.Type) {
				g.merge(&of.Type, &f.Type)
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

// extra lets a record have other members, or not, as the API does now.
func (g *grower) extra(into *avro.SchemaNode, f *avro.SchemaField) {
	last := &into.Fields[len(into.Fields)-1]
	if was := last.Props["open"].(bool); was != f.Props["open"] {
		last.Props["open"] = f.Props["open"]
		g.grown = true
	}
}

// merge merges types of the same name. A record that several fields share grows for all of them.
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

// add adds a field in front of _extra. changed: its member has fields of other types.
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

// rename gives new records names that no other record has.
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

// typeName names a type in a field's name: types of one name can be merged.
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
	return "record" // or the name of one
}
