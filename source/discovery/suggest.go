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
		lines = append(lines, fmt.Sprintf("%s: %q has no effect, the API server serves no such resource; %s",
			setting, p.text, didYouMean(p, served)))
	}
	return lines
}

// didYouMean asks whether one of the resources was meant that go by the pattern's name elsewhere, such as kubectl's short name of
// it. If there are none it lists the up to three served resources whose names are closest.
func didYouMean(p Pattern, served Served) string {
	candidates := slices.DeleteFunc(slices.Clone(served.all), func(r change.Resource) bool { return !served.preferred(r) })
	slices.SortFunc(candidates, func(a, b change.Resource) int { return strings.Compare(a.ID(), b.ID()) })
	distance := func(r change.Resource) int { return p.distance(r, served.named[r.ID()].Short) }
	var near, meant []string
	for _, r := range suggest.Closest(candidates, 3, distance) {
		near = append(near, r.ID())
		if distance(r) == 0 {
			meant = append(meant, r.ID())
		}
	}
	if len(meant) > 0 {
		return "did you mean " + strings.Join(meant, " or ") + "?"
	}
	return "nearest: " + strings.Join(near, ", ")
}

// distance is 0 for a resource that differs in its group alone, or whose kind or short name was given in place of its plural.
func (p Pattern) distance(r change.Resource, short []string) int {
	if p.resource == r.Plural || strings.EqualFold(p.resource, r.Kind) || slices.Contains(short, p.resource) {
		return 0
	}
	return min(suggest.Distance(p.text, r.ID()), suggest.Distance(p.resource, r.Plural)+1)
}

// UnknownError has the patterns that match nothing, each with the nearest names.
type UnknownError struct{ lines []string }

func (e *UnknownError) Error() string { return strings.Join(e.lines, "\n") }

// Unknown returns the error for patterns that match nothing, with the nearest names.
func Unknown(unknown []Pattern, served Served) *UnknownError {
	e := &UnknownError{}
	for _, p := range unknown {
		e.lines = append(e.lines, fmt.Sprintf("KUBECDC_RESOURCES: the API server serves no %q that can be listed and watched; %s",
			p.text, didYouMean(p, served)))
	}
	return e
}
