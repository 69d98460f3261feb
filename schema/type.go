// Package schema describes the records of a resource for the programs that read them. From the resource's OpenAPI schema it makes
// one tree of types. From the tree it makes the statement or the schema for each program, in one file for each dialect. It opens
// no connection. It knows only the structure of records (change/envelope.go).
package schema

import (
	"slices"
	"strings"
)

// Kind is the kind of a type.
type Kind uint8

// The kinds. Quantities, times, enums and bytes are strings, as in JSON.
const (
	JSON        Kind = iota // any JSON value: without a schema, or with a recursive one
	String                  //
	IntOrString             // either, as in maxUnavailable
	Integer                 // with 64 bits
	Number                  // with double precision
	Boolean                 //
	Record                  // an object with named members
	Map                     // an object whose members have any names
	Array                   //
)

// Type is the type of a JSON value. Every value may also be null or missing.
type Type struct {
	Kind   Kind
	Fields []Field // the members of a Record
	Open   bool    // whether a Record's object may have members that are not in Fields
	Elem   *Type   // the values of a Map, or the elements of an Array
}

// Field is a member of a Record.
type Field struct {
	Name   string
	Type   *Type
	Hidden bool // omitted unless it is chosen
}

func scalar(k Kind) *Type               { return &Type{Kind: k} }
func record(fields ...Field) *Type      { return &Type{Kind: Record, Fields: fields} }
func mapOf(t *Type) *Type               { return &Type{Kind: Map, Elem: t} }
func arrayOf(t *Type) *Type             { return &Type{Kind: Array, Elem: t} }
func field(name string, t *Type) Field  { return Field{Name: name, Type: t} }
func fieldOf(name string, k Kind) Field { return field(name, scalar(k)) }

// common are the members that every object has. They come first.
var common = []string{"apiVersion", "kind", "metadata"}

// rootOf returns the type of an object of the API. All objects have the same metadata. If the schema leaves an object open and
// names neither spec nor status, both are JSON.
func rootOf(t *Type) *Type {
	fields := []Field{fieldOf("apiVersion", String), fieldOf("kind", String), field("metadata", objectMeta)}
	for _, f := range t.Fields {
		if !slices.Contains(common, f.Name) {
			fields = append(fields, f)
		}
	}
	root := &Type{Kind: Record, Fields: fields, Open: t.Open || t.Kind != Record}
	if root.Open && len(fields) == len(common) {
		root.Fields = append(fields, fieldOf("spec", JSON), fieldOf("status", JSON))
	}
	return root
}

// objectMeta is the type of metadata (k8s.io/apimachinery, meta/v1 ObjectMeta). The schema of a CRD does not describe it.
var objectMeta = record(
	fieldOf("name", String), fieldOf("namespace", String), fieldOf("generateName", String), fieldOf("uid", String),
	fieldOf("resourceVersion", String), fieldOf("generation", Integer), fieldOf("creationTimestamp", String),
	fieldOf("deletionTimestamp", String), fieldOf("deletionGracePeriodSeconds", Integer),
	field("labels", mapOf(scalar(String))), field("annotations", mapOf(scalar(String))),
	field("finalizers", arrayOf(scalar(String))),
	field("ownerReferences", arrayOf(record(
		fieldOf("apiVersion", String), fieldOf("kind", String), fieldOf("name", String), fieldOf("uid", String),
		fieldOf("controller", Boolean), fieldOf("blockOwnerDeletion", Boolean)))),
	Field{Name: "managedFields", Hidden: true, Type: arrayOf(record(
		fieldOf("manager", String), fieldOf("operation", String), fieldOf("apiVersion", String), fieldOf("time", String),
		fieldOf("fieldsType", String), fieldOf("fieldsV1", JSON), fieldOf("subresource", String)))},
)

// twins reports whether two members of a record have names that differ only by case.
func twins(t *Type) bool {
	if t.Elem != nil {
		return twins(t.Elem)
	}
	seen := map[string]bool{}
	for _, f := range t.Fields {
		folded := strings.ToLower(f.Name)
		if seen[folded] || twins(f.Type) {
			return true
		}
		seen[folded] = true
	}
	return false
}

// openPaths returns the paths of the records that may have other members. The root's path is empty.
func openPaths(t *Type, path ...string) (paths []string) {
	if t.Open {
		paths = append(paths, strings.Join(path, "."))
	}
	if t.Elem != nil {
		paths = append(paths, openPaths(t.Elem, path...)...)
	}
	for _, f := range t.Fields {
		paths = append(paths, openPaths(f.Type, append(path[:len(path):len(path)], f.Name)...)...)
	}
	return paths
}
