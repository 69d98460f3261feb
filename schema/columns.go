package schema

import (
	"slices"
	"strings"

	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
)

// Columns chooses which members of an object get their own columns. The paths are those of kubectl explain, without lists and
// maps: spec.containers.image.
type Columns struct {
	Only     []string // only these, or if empty, everything except managedFields
	Without  []string // everything except these and what is below them
	JSON     []string // as JSON
	Redacted []string // strings, whatever the schema says, in the notation of KUBECDC_REDACT
}

// Choose returns the type with these columns. The error is a fault.Usage.
func (t *Type) Choose(c Columns) (*Type, error) {
	only, err := t.tree(c.Only)
	if err != nil {
		return nil, err
	}
	without, err := t.tree(c.Without)
	if err != nil {
		return nil, err
	}
	asJSON, err := t.tree(c.JSON)
	if err != nil {
		return nil, err
	}
	t = t.Redact(c.Redacted).pick(only, without, asJSON)
	if t.hollow() {
		return nil, fault.Usage("no column is left: name fewer paths with --without, or others with --columns")
	}
	return t, nil
}

// tree has the names of members, each with a tree of its members. An empty tree stands for all.
type tree map[string]tree

func (t *Type) tree(paths []string) (tree, error) {
	names := tree{}
	longest := slices.SortedFunc(slices.Values(paths), func(a, b string) int { return len(b) - len(a) })
	for _, path := range longest { // so that spec wins over spec.nodeName
		if err := t.add(names, path); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// add adds a path. A member's name may contain dots: the longest name that fits is taken.
func (t *Type) add(to tree, path string) error {
	name, rest := path, path
	for rest != "" {
		for t.Elem != nil {
			t = t.Elem
		}
		var found *Field
		var names []string
		for i, f := range t.Fields {
			fits := rest == f.Name || strings.HasPrefix(rest, f.Name+".")
			if fits && (found == nil || len(f.Name) > len(found.Name)) {
				found = &t.Fields[i]
			}
			names = append(names, f.Name)
		}
		if found == nil {
			return noColumn(name, rest, names)
		}
		if to[found.Name] == nil {
			to[found.Name] = tree{}
		}
		to, t = to[found.Name], found.Type
		rest = strings.TrimPrefix(rest[len(found.Name):], ".")
	}
	clear(to)
	return nil
}

func noColumn(path, rest string, names []string) error {
	parent := strings.TrimSuffix(strings.TrimSuffix(path, rest), ".")
	if parent == "" {
		parent = "the object"
	}
	if len(names) == 0 {
		return fault.Usagef("no column %q: the schema names no member of %s", path, parent)
	}
	name, _, _ := strings.Cut(rest, ".")
	return fault.Usagef("no column %q: %s has no member %q; %sit has %s", path, parent, name,
		suggest.DidYouMean(name, names), strings.Join(names, ", "))
}

// pick returns the type with the chosen members. In lists and maps it chooses the members of their elements. An empty tree
// chooses everything except what is hidden. A record without remaining members is removed, too.
func (t *Type) pick(only, without, asJSON tree) *Type {
	c := *t
	if t.Elem != nil {
		c.Elem = t.Elem.pick(only, without, asJSON)
		return &c
	}
	c.Fields, c.Open = nil, t.Open && len(only) == 0
	for _, f := range t.Fields {
		below, chosen := only[f.Name]
		less, named := without[f.Name]
		text, isJSON := asJSON[f.Name]
		switch {
		case !chosen && (len(only) > 0 || f.Hidden), named && len(less) == 0:
			continue
		case isJSON && len(text) == 0:
			f.Type = scalar(JSON)
		default:
			f.Type = f.Type.pick(below, less, text)
		}
		if !named || !f.Type.hollow() {
			c.Fields = append(c.Fields, f)
		}
	}
	return &c
}

// hollow reports whether the type is a record without members, or has such elements.
func (t *Type) hollow() bool {
	if t.Elem != nil {
		return t.Elem.hollow()
	}
	return t.Kind == Record && len(t.Fields) == 0
}

// Redact returns a copy of the type, in which the values at the paths are strings: their hashes. The paths have the notation of
// KUBECDC_REDACT.
func (t *Type) Redact(paths []string) *Type {
	for _, path := range paths {
		t = t.redact(strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), "."))
	}
	return t
}

// redact returns the type with a string for the value at the path, which is replaced by a hash: redact.Path.
func (t *Type) redact(path []string) *Type {
	if len(path) == 0 {
		return scalar(String)
	}
	c := *t
	switch t.Kind {
	case Array:
		c.Elem = t.Elem.redact(path)
	case Map:
		c.Elem = t.Elem.redact(path[1:])
	}
	c.Fields = nil
	name := strings.ReplaceAll(strings.ReplaceAll(path[0], "\x00", "."), `\`, "")
	for _, f := range t.Fields {
		if f.Name == name || path[0] == "*" {
			f.Type = f.Type.redact(path[1:])
		}
		c.Fields = append(c.Fields, f)
	}
	return &c
}
