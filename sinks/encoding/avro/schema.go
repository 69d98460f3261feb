// Package avro writes JSON objects in Avro's binary encoding, reads them back, and lets schemas grow. exporter schema prints its
// schemas (schema/avro.go). What it reads back has the complete content of what was written, since _extra has all that has no
// field. It knows nothing of Kafka, nor of the registry that stores the schemas.
package avro

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/twmb/avro"
)

// Schema is a parsed schema. It is safe for concurrent use.
type Schema struct {
	Text string
	root *node
}

type kind uint8

const (
	text kind = iota
	jsonText
	intOrString
	long
	double
	boolean
	record
	mapping
	array
)

// node is the type of a value.
type node struct {
	kind          kind
	nullable      bool // a union with null
	elem          *node
	fields        []field
	absent        []token          // no token for each field
	byName        map[string][]int // fields of a member, the newest first: its type may have changed
	extra         int              // the index of _extra, the last field
	open          bool             // the API allows members that its schema does not name
	isRecordValue bool             // null stands for a missing image
	path          string
}

type field struct {
	*node
	quoted []byte // the member's "name":
}

// Parse parses a schema that this package has made. For other schemas its error names what differs.
func Parse(schema string) (*Schema, error) {
	parsed, err := avro.Parse(schema)
	if err != nil {
		return nil, err
	}
	c := compiler{records: map[string]*node{}}
	root, err := c.compile(parsed.Root().ExpandReferences(), "")
	if err != nil {
		return nil, fmt.Errorf("the schema is not one of this exporter: %w", err)
	}
	if root.kind != record {
		return nil, errors.New("the schema is not one of this exporter: it is no record")
	}
	root.isRecordValue = true
	return &Schema{Text: schema, root: root}, nil
}

type compiler struct{ records map[string]*node }

func (c compiler) compile(n *avro.SchemaNode, path string) (*node, error) {
	if n.Type == "union" {
		if len(n.Branches) != 2 || n.Branches[0].Type != "null" {
			return nil, fmt.Errorf("%s is a union, and not one of null and a type", path)
		}
		branch, err := c.compile(&n.Branches[1], path)
		if err != nil {
			return nil, err
		}
		nullable := *branch
		nullable.nullable = true
		return &nullable, nil
	}
	switch n.Type {
	case "record":
		return c.record(n, path)
	case "array", "map":
		k, element := array, n.Items
		if n.Type == "map" {
			k, element = mapping, n.Values
		}
		elem, err := c.compile(element, path)
		return &node{kind: k, elem: elem, path: path}, err
	}
	k, ok := scalars[n.Type]
	if !ok {
		return nil, fmt.Errorf("%s is of type %s", path, n.Type)
	}
	return &node{kind: kindOf(n, k), path: path}, nil
}

var scalars = map[string]kind{"string": text, "long": long, "double": double, "boolean": boolean}

// kindOf returns the kind of a string, whose properties may say that it stands for another value.
func kindOf(n *avro.SchemaNode, k kind) kind {
	switch {
	case n.Props["connect.name"] == "io.debezium.data.Json":
		return jsonText
	case n.Props["format"] == "int-or-string":
		return intOrString
	}
	return k
}

func (c compiler) record(n *avro.SchemaNode, path string) (*node, error) {
	name := n.Namespace + "." + n.Name
	if known := c.records[name]; known != nil {
		return known, nil
	}
	r := &node{kind: record, byName: map[string][]int{}, path: path, extra: -1}
	c.records[name] = r
	for i := range n.Fields {
		f := &n.Fields[i]
		member := memberOf(f)
		compiled, err := c.compile(&f.Type, join(path, member))
		if err == nil && !compiled.nullable {
			err = fmt.Errorf("%s can't be null", compiled.path)
		}
		if err != nil {
			return nil, err
		}
		r.fields = append(r.fields, field{compiled, append(appendString(nil, member), ':')})
		if open, extra := f.Props["open"].(bool); extra {
			r.open, r.extra = open, i
			continue
		}
		r.byName[member] = append([]int{i}, r.byName[member]...)
	}
	r.absent = make([]token, len(r.fields))
	if r.extra < 0 || r.extra != len(r.fields)-1 {
		return nil, fmt.Errorf("the last field of %s is not its _extra", cmp.Or(path, "the record"))
	}
	return r, nil
}

// memberOf returns the name of the JSON member of a field.
func memberOf(f *avro.SchemaField) string {
	if name, ok := f.Props["json"].(string); ok {
		return name
	}
	return f.Name
}

func join(path, member string) string {
	if path == "" {
		return member
	}
	return path + "." + member
}
