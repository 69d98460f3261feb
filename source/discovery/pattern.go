package discovery

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
)

// Pattern is one entry of KUBECDC_RESOURCES: "pods", "deployments.apps", "deployments.v1.apps",
// "*.example.com", "*"; with a ! in front, what it names is left out.
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

// ParsePattern reads one entry. A version is told from a group by its form (v1, v2beta1), as kubectl does.
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
	case p.resource == "" || s == "*" || strings.ContainsAny(s, "/ \t!") || strings.Contains(s, "..") || strings.Contains(s[1:], "*"):
		return p, fmt.Errorf("%q is no resource: write the plural and the group as kubectl does (pods, deployments.apps, deployments.v1.apps), *.GROUP for all of a group, *, or any of the first with ! in front to leave it out", given)
	case not && p.version != "":
		return p, fmt.Errorf("%q names a version: what is left out is left out in every version, write !%s", given, change.Resource{Group: p.group, Plural: p.resource}.ID())
	}
	return p, nil
}

// ParsePatterns reads a list; all that is wrong is in the one error.
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

// wild reports whether the pattern may match resources that do not exist yet.
func (p Pattern) wild() bool { return p.resource == "*" }

// takes reports whether the pattern takes the resource in. Secrets are taken only by their name.
func (p Pattern) takes(r change.Resource) bool {
	if p.not || p.wild() && IsSecrets(r) {
		return false
	}
	return p.names(r) && (p.version == "" || p.version == r.Version)
}

// names is for any version.
func (p Pattern) names(r change.Resource) bool {
	return p.all || (p.resource == "*" || p.resource == r.Plural) && p.group == r.Group
}

// IsSecrets reports whether these are the Secrets of the core group.
func IsSecrets(r change.Resource) bool { return r.Group == "" && r.Plural == "secrets" }

// Names reports whether the pattern names this one resource, in whatever version.
func (p Pattern) Names(r change.Resource) bool { return !p.not && !p.wild() && p.names(r) }

// Covers reports whether what the patterns say of a resource holds for it, in whatever version it is read, and also where
// they name the same objects in another group. A wildcard covers Secrets as well.
func Covers(patterns []Pattern, r change.Resource) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return !p.not && p.covers(r) }) && !leftOut(patterns, r)
}

func (p Pattern) covers(r change.Resource) bool {
	if p.names(r) {
		return true
	}
	for _, pair := range aliases {
		for i, id := range pair {
			if id == r.ID() && p.names(change.ResourceOf(change.StreamID(pair[1-i]))) {
				return true
			}
		}
	}
	return false
}

// leftOut reports whether a pattern with ! covers the resource.
func leftOut(patterns []Pattern, r change.Resource) bool {
	return slices.ContainsFunc(patterns, func(p Pattern) bool { return p.not && p.covers(r) })
}

// Takes reports whether the patterns take in the resource of this id, were it served.
func Takes(patterns []Pattern, id string) bool {
	r := change.ResourceOf(change.StreamID(id))
	return !leftOut(patterns, r) && slices.ContainsFunc(patterns, func(p Pattern) bool { p.version = ""; return p.takes(r) })
}
