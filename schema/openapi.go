package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/change"
)

// node is a schema of OpenAPI v3, or the structural schema of a CRD
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/). Only what determines types
// is read.
type node struct {
	Ref                  string           `json:"$ref"`
	Type                 string           `json:"type"`
	Format               string           `json:"format"`
	Properties           map[string]*node `json:"properties"`
	AdditionalProperties *additional      `json:"additionalProperties"`
	Items                *node            `json:"items"`
	AllOf                []*node          `json:"allOf"`
	OneOf                []*node          `json:"oneOf"`
	IntOrString          bool             `json:"x-kubernetes-int-or-string"`
	EmbeddedResource     bool             `json:"x-kubernetes-embedded-resource"`
	PreserveUnknown      bool             `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds                []groupKind      `json:"x-kubernetes-group-version-kind"`
}

type groupKind struct{ Group, Version, Kind string }

// additional is additionalProperties: a schema, or a boolean.
type additional struct {
	schema  *node
	allowed bool
}

func (a *additional) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &a.allowed) == nil {
		return nil
	}
	a.allowed = true
	return json.Unmarshal(raw, &a.schema)
}

// FromOpenAPI returns the type of the resource's objects. The document is that of its group and version, from /openapi/v3.
func FromOpenAPI(document []byte, r change.Resource) (*Type, error) {
	var d struct {
		Components struct{ Schemas map[string]*node }
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document of %s: %w", r.APIVersion(), err)
	}
	schemas := resolver(d.Components.Schemas)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if slices.Contains(schemas[name].Kinds, groupKind{r.Group, r.Version, r.Kind}) {
			return rootOf(schemas.typeOf(schemas[name])), nil
		}
	}
	return nil, &UndescribedError{r}
}

// UndescribedError is about a resource that the API server serves but does not describe.
type UndescribedError struct{ resource change.Resource }

func (e *UndescribedError) Error() string {
	return fmt.Sprintf("the API server's OpenAPI document of %s describes no %s (%s); name the file of its CRD with --crds",
		e.resource.APIVersion(), e.resource.Kind, e.resource.ID())
}

// Undescribed is the type of the objects of such a resource.
func Undescribed() *Type { return rootOf(scalar(JSON)) }

// resolver has the schemas that a $ref may name.
type resolver map[string]*node

func (r resolver) typeOf(n *node) *Type {
	n = r.deref(n)
	switch {
	case n == nil:
		return scalar(JSON)
	case n.IntOrString, n.Format == "int-or-string":
		return scalar(IntOrString)
	// a quantity is a string or a number
	case n.Type == "string", len(n.OneOf) > 0 && n.OneOf[0].Type == "string" && n.Type == "":
		return scalar(String)
	case n.Type == "integer":
		return scalar(Integer)
	case n.Type == "number":
		return scalar(Number)
	case n.Type == "boolean":
		return scalar(Boolean)
	case n.Type == "array" && n.Items != nil:
		return arrayOf(r.typeOf(n.Items))
	case n.EmbeddedResource && !slices.ContainsFunc(slices.Collect(maps.Keys(n.Properties)), notCommon):
		return scalar(JSON) // an API server adds the members that all objects have, which say nothing about this one
	case len(n.Properties) > 0:
		return r.recordOf(n)
	case n.AdditionalProperties != nil && n.AdditionalProperties.schema != nil && !n.PreserveUnknown:
		return mapOf(r.typeOf(n.AdditionalProperties.schema))
	}
	return scalar(JSON)
}

func notCommon(member string) bool { return !slices.Contains(common, member) }

func (r resolver) recordOf(n *node) *Type {
	t := record()
	names := slices.Collect(maps.Keys(n.Properties))
	if n.EmbeddedResource { // an API server adds these to its document, whether or not the CRD has them
		names = append(names, common...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch {
		case n.EmbeddedResource && name == "metadata":
			t.Fields = append(t.Fields, field(name, objectMeta))
		case n.EmbeddedResource && slices.Contains(common, name):
			t.Fields = append(t.Fields, fieldOf(name, String))
		default:
			t.Fields = append(t.Fields, field(name, r.typeOf(n.Properties[name])))
		}
	}
	t.Open = n.PreserveUnknown || n.AdditionalProperties != nil && n.AdditionalProperties.allowed
	return t
}

// deref follows $ref, also if it is the only member of allOf, where the API server puts it. It returns nil for a schema that is
// recursive, or that is not in the document.
func (r resolver) deref(n *node) *node {
	for name := n.target(); name != ""; name = n.target() {
		if n = r[name]; n == nil || r.reaches(n, name, map[string]bool{}) {
			return nil
		}
	}
	return n
}

// target returns the name of the schema that this one refers to.
func (n *node) target() string {
	if len(n.AllOf) == 1 && n.Type == "" && n.Ref == "" {
		n = n.AllOf[0]
	}
	return strings.TrimPrefix(n.Ref, "#/components/schemas/")
}

// reaches reports whether the schema refers to the one of that name, directly or not.
func (r resolver) reaches(n *node, name string, seen map[string]bool) bool {
	if n == nil {
		return false
	}
	if target := n.target(); target != "" {
		if target == name || seen[target] {
			return target == name
		}
		seen[target] = true
		return r.reaches(r[target], name, seen)
	}
	if n.AdditionalProperties != nil && r.reaches(n.AdditionalProperties.schema, name, seen) {
		return true
	}
	for _, p := range n.Properties {
		if r.reaches(p, name, seen) {
			return true
		}
	}
	return r.reaches(n.Items, name, seen)
}
