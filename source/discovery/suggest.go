package discovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// ExplainUnmatched returns a line for each unmatched pattern of a setting, with the nearest names.
func ExplainUnmatched(setting string, unmatched []Pattern, served Served) (lines []string) {
	for _, p := range unmatched {
		lines = append(lines, fmt.Sprintf("%s: %q has no effect, the API server serves no such resource; nearest: %s",
			setting, p.text, strings.Join(Nearest(p, served), ", ")))
	}
	return lines
}

// Nearest returns the ids of the served resources that are nearest to the pattern, for an error message.
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

// UnknownError has the patterns that match nothing, each with the nearest names.
type UnknownError struct{ lines []string }

func (e *UnknownError) Error() string { return strings.Join(e.lines, "\n") }

// Unknown returns the error of the patterns.
func Unknown(unknown []Pattern, served Served) *UnknownError {
	e := &UnknownError{}
	for _, p := range unknown {
		e.lines = append(e.lines, fmt.Sprintf(
			"KUBECDC_RESOURCES: the API server serves no %q that can be listed and watched; nearest: %s",
			p.text, strings.Join(Nearest(p, served), ", ")))
	}
	return e
}
