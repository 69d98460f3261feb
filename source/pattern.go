package source

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/agnivade/levenshtein"

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
			if id == r.ID() && p.names(change.ResourceOf(pair[1-i])) {
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
	r := change.ResourceOf(id)
	return !leftOut(patterns, r) && slices.ContainsFunc(patterns, func(p Pattern) bool { p.version = ""; return p.takes(r) })
}

// aliases are resources that show the same objects in two groups: the second is left out where both are matched.
// Both are served from the same storage, so their uids and resourceVersions are the same.
var aliases = [][2]string{
	{"events", "events.events.k8s.io"},
	{"ingresses.networking.k8s.io", "ingresses.extensions"},
	{"networkpolicies.networking.k8s.io", "networkpolicies.extensions"},
	{"deployments.apps", "deployments.extensions"},
	{"daemonsets.apps", "daemonsets.extensions"},
	{"replicasets.apps", "replicasets.extensions"},
}

// Select picks the resources that the patterns name, each once, in a fixed order. unknown are the patterns without
// a wildcard that nothing matches; of those with !, Idle tells.
func Select(patterns []Pattern, served Served) (selected []change.Resource, unknown []Pattern) {
	picked := map[string]change.Resource{}
	for _, p := range patterns {
		found := p.not
		for _, r := range served.all {
			if !p.takes(r) || p.version == "" && !served.preferred(r) {
				continue
			}
			found = true
			if leftOut(patterns, r) {
				continue
			}
			if _, ok := picked[r.ID()]; !ok || p.version != "" {
				picked[r.ID()] = r
			}
		}
		if !found && !p.wild() && !served.failed[p.group] {
			unknown = append(unknown, p)
		}
	}
	for _, pair := range aliases {
		if _, ok := picked[pair[0]]; ok {
			delete(picked, pair[1])
		}
	}
	for _, r := range picked {
		selected = append(selected, r)
	}
	sort.Slice(selected, func(i, j int) bool { return selected[i].ID() < selected[j].ID() })
	return selected, unknown
}

// Idle gives what names nothing that is served, of the patterns without a wildcard.
func Idle(patterns []Pattern, served Served) (idle []Pattern) {
	for _, p := range patterns {
		if !p.wild() && !served.failed[p.group] && !slices.ContainsFunc(served.all, p.names) {
			idle = append(idle, p)
		}
	}
	return idle
}

// LeftOut gives the patterns with ! in front.
func LeftOut(patterns []Pattern) (out []Pattern) {
	for _, p := range patterns {
		if p.not {
			out = append(out, p)
		}
	}
	return out
}

// Doubt says of each idle pattern of a setting that it does nothing, with the nearest names.
func Doubt(setting string, idle []Pattern, served Served) (lines []string) {
	for _, p := range idle {
		lines = append(lines, fmt.Sprintf("%s: %q has no effect, the API server serves no such resource; nearest: %s",
			setting, p.text, strings.Join(Nearest(p, served), ", ")))
	}
	return lines
}

// Nearest gives the known resources whose names are most like the pattern, for an error message.
func Nearest(p Pattern, served Served) []string {
	type candidate struct {
		id       string
		distance int
	}
	var all []candidate
	for _, r := range served.all {
		if !served.preferred(r) {
			continue
		}
		d := min(levenshtein.ComputeDistance(p.text, r.ID()), levenshtein.ComputeDistance(p.resource, r.Plural)+1)
		if strings.EqualFold(p.text, r.Kind) || p.resource == r.Plural {
			d = 0
		}
		all = append(all, candidate{r.ID(), d})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.id, b.id)
	})
	var names []string
	for _, c := range all[:min(3, len(all))] {
		names = append(names, c.id)
	}
	return names
}

// UnknownError names the patterns that nothing matches, each with the nearest names.
type UnknownError struct{ lines []string }

func (e *UnknownError) Error() string { return strings.Join(e.lines, "\n") }

// Unknown makes the error.
func Unknown(unknown []Pattern, served Served) *UnknownError {
	e := &UnknownError{}
	for _, p := range unknown {
		e.lines = append(e.lines, fmt.Sprintf("KUBECDC_RESOURCES: the API server serves no %q that can be listed and watched; nearest: %s",
			p.text, strings.Join(Nearest(p, served), ", ")))
	}
	return e
}
