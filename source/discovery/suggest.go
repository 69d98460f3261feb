package discovery

import (
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/suggest"
)

// ExplainUnmatched returns a line for each unmatched pattern of a setting, with the nearest names.
func ExplainUnmatched(setting string, unmatched []Pattern, served Served) (lines []string) {
	for _, p := range unmatched {
		lines = append(lines, fmt.Sprintf("%s: %q has no effect, the API server serves no such resource; nearest: %s",
			setting, p.text, strings.Join(nearest(p, served), ", ")))
	}
	return lines
}

// nearest returns the IDs of up to three served resources whose names are closest to the pattern.
func nearest(p Pattern, served Served) (ids []string) {
	candidates := slices.DeleteFunc(slices.Clone(served.all), func(r change.Resource) bool { return !served.preferred(r) })
	slices.SortFunc(candidates, func(a, b change.Resource) int { return strings.Compare(a.ID(), b.ID()) })
	for _, r := range suggest.Closest(candidates, 3, p.distance) {
		ids = append(ids, r.ID())
	}
	return ids
}

// distance is 0 for a resource that differs in its group alone, or whose kind was given in place of its plural.
func (p Pattern) distance(r change.Resource) int {
	if strings.EqualFold(p.text, r.Kind) || p.resource == r.Plural {
		return 0
	}
	return min(suggest.Distance(p.text, r.ID()), suggest.Distance(p.resource, r.Plural)+1)
}

// UnknownError has the patterns that match nothing, each with the nearest names.
type UnknownError struct{ lines []string }

func (e *UnknownError) Error() string { return strings.Join(e.lines, "\n") }

// Unknown returns the error of the patterns.
func Unknown(unknown []Pattern, served Served) *UnknownError {
	e := &UnknownError{}
	for _, p := range unknown {
		e.lines = append(e.lines, fmt.Sprintf("KUBECDC_RESOURCES: the API server serves no %q that can be listed and watched; nearest: %s",
			p.text, strings.Join(nearest(p, served), ", ")))
	}
	return e
}
