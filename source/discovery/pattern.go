package discovery

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
)

// Pattern is one entry of KUBECDC_RESOURCES: "pods", "deployments.apps", "deployments.v1.apps",
// "*.example.com", "*". A ! in front leaves out what it names.
type Pattern struct {
	text     string // without the !
	not      bool
	resource string // "*" for all of the group
	version  string // empty: the server's preferred one
	group    string
	all      bool // "*": every group
}

// String is the entry as it was written.
func (p Pattern) String() string {
	if p.not {
		return "!" + p.text
	}
	return p.text
}

// ParsePattern parses one entry. A version differs from a group by its form (v1, v2beta1), as in kubectl.
func ParsePattern(s string) (Pattern, error) {
	given := s
	s, not := strings.CutPrefix(s, "!")
	p := Pattern{text: s, not: not}
	if s == "*" && !not {
		p.all, p.resource = true, "*"
		return p, nil
	}
	parts := strings.Split(s, ".")
	p.resource = parts[0]
	rest := parts[1:]
	if len(rest) > 0 && isVersion(rest[0]) {
		p.version, rest = rest[0], rest[1:]
	}
	p.group = strings.Join(rest, ".")
	switch {
	case p.resource == "" || s == "*" || strings.ContainsAny(s, "/ \t!") ||
		strings.Contains(s, "..") || strings.Contains(s[1:], "*"):
		return p, fmt.Errorf("%q is no resource: write the plural and the group as kubectl does (pods, deployments.apps, "+
			"deployments.v1.apps), *.GROUP for all of a group, *, or any of the first with ! in front to leave it out", given)
	case not && p.version != "":
		return p, fmt.Errorf("%q names a version: what is left out is left out in every version, write !%s", given,
			change.Resource{Group: p.group, Plural: p.resource}.ID())
	}
	return p, nil
}

// ParsePatterns parses a list. The error has everything that is wrong.
func ParsePatterns(texts []string) ([]Pattern, error) {
	var patterns []Pattern
	var wrong []string
	for _, t := range texts {
		p, err := ParsePattern(strings.TrimSpace(t))
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		patterns = append(patterns, p)
	}
	if wrong != nil {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return patterns, nil
}

func isVersion(s string) bool {
	rest, ok := strings.CutPrefix(s, "v")
	return ok && rest != "" && rest[0] >= '1' && rest[0] <= '9'
}

// wild reports whether the pattern may also match resources that are created later.
func (p Pattern) wild() bool { return p.resource == "*" }

// selects reports whether the pattern selects the resource. Secrets are selected only by their name.
func (p Pattern) selects(r change.Resource) bool {
	if p.not || p.wild() && IsSecrets(r) {
		return false
	}
	return p.names(r) && (p.version == "" || p.version == r.Version)
}

// names reports whether the pattern names the resource, in any version.
func (p Pattern) names(r change.Resource) bool {
	return p.all || (p.resource == "*" || p.resource == r.Plural) && p.group == r.Group
}

// IsSecrets reports whether the resource is the Secrets of the core group.
func IsSecrets(r change.Resource) bool { return r.Group == "" && r.Plural == "secrets" }

// Names reports whether the pattern names exactly this resource, in any version.
func (p Pattern) Names(r change.Resource) bool { return !p.not && !p.wild() && p.names(r) }

// IDs returns the ids of the resources that the pattern covers, in any version. A wildcard is "*", which stands for all.
func (p Pattern) IDs() []string {
	id := change.Resource{Group: p.group, Plural: p.resource}.ID()
	switch {
	case p.not:
		return nil
	case p.wild():
		return []string{"*"}
	case slices.Contains(events[:], id):
		return events[:]
	}
	return []string{id}
}

// Covers reports whether the patterns apply to the resource, in any version, or to another resource that has the same objects
// (events). A wildcard covers Secrets too.
func Covers(patterns []Pattern, r change.Resource) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return !p.not && p.covers(r) }) && !leftOut(patterns, r)
}

func (p Pattern) covers(r change.Resource) bool {
	i := slices.Index(events[:], r.ID())
	return p.names(r) || i >= 0 && p.names(change.ResourceOf(change.StreamID(events[1-i])))
}

// leftOut reports whether a pattern with ! covers the resource.
func leftOut(patterns []Pattern, r change.Resource) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.not && p.covers(r) })
}

// Selects reports whether the patterns would select the resource of this id if it were served.
func Selects(patterns []Pattern, id string) bool {
	r := change.ResourceOf(change.StreamID(id))
	return !leftOut(patterns, r) && slices.ContainsFunc(patterns, func(p Pattern) bool { p.version = ""; return p.selects(r) })
}
