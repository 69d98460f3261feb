package source

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
)

// Split is one entry of KUBECDC_SPLIT: a namespace of a resource that is a stream of its own.
type Split struct {
	pattern   Pattern
	Namespace string
}

// Resource is the resource's id.
func (s Split) Resource() string {
	return change.Resource{Group: s.pattern.group, Plural: s.pattern.resource}.ID()
}

func (s Split) String() string { return s.Resource() + "@" + s.Namespace }

// ParseSplits reads RESOURCE@NAMESPACE entries.
func ParseSplits(texts []string) (splits []Split, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		resource, namespace, ok := strings.Cut(text, "@")
		p, err := ParsePattern(resource)
		s := Split{p, namespace}
		switch {
		case err != nil:
			return nil, err
		case !ok || namespace == "" || p.wild():
			return nil, fmt.Errorf("%q names no namespace of a resource: write RESOURCE@NAMESPACE, such as pods@kube-system", text)
		case seen[s.String()]:
			return nil, fmt.Errorf("%s is there twice: leave one out", s)
		}
		seen[s.String()] = true
		splits = append(splits, s)
	}
	return splits, nil
}

// CheckSplits makes sure that what is split can be. A resource that is not there may come later, where a pattern with
// a wildcard selects it.
func CheckSplits(splits []Split, patterns []Pattern, selected []change.Resource, served Served) error {
	for _, s := range splits {
		if err := s.check(patterns, selected, served); err != nil {
			return err
		}
	}
	return nil
}

func (s Split) check(patterns []Pattern, selected []change.Resource, served Served) error {
	same := func(r change.Resource) bool { return r.ID() == s.Resource() }
	i, known := slices.IndexFunc(selected, same), slices.ContainsFunc(served.all, same)
	later := slices.ContainsFunc(patterns, func(p Pattern) bool { return p.all || p.wild() && p.group == s.pattern.group })
	switch {
	case i >= 0 && !selected[i].Namespaced:
		return fmt.Errorf("KUBECDC_SPLIT: %s belong to no namespace, so %s can't be split off: leave it out", s.Resource(), s)
	case i >= 0, !known && later, !known && served.failed[s.pattern.group]:
		return nil
	case known && s.alias() != "":
		return fmt.Errorf("KUBECDC_SPLIT: %s are exported as %s: write %s@%s", s.Resource(), s.alias(), s.alias(), s.Namespace)
	case known:
		return fmt.Errorf("KUBECDC_SPLIT: %s is not exported: add %s to KUBECDC_RESOURCES (now %s), or leave %s out", s.Resource(), s.Resource(), texts(patterns), s)
	}
	return fmt.Errorf("KUBECDC_SPLIT: the API server serves no %q that can be listed and watched; nearest: %s",
		s.Resource(), strings.Join(Nearest(s.pattern, served), ", "))
}

// alias is the resource under which the same objects are exported; empty when there is none.
func (s Split) alias() string {
	for _, pair := range aliases {
		if pair[1] == s.Resource() {
			return pair[0]
		}
	}
	return ""
}

func texts(patterns []Pattern) string {
	var all []string
	for _, p := range patterns {
		all = append(all, p.text)
	}
	return strings.Join(all, ",")
}
