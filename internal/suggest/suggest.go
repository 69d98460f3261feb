// Package suggest finds the names that a mistyped one may stand for.
package suggest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Distance counts the edits that turn one name into the other. It ignores case.
func Distance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

// Closest returns the n candidates of the smallest distance, or all if there are fewer. Equally distant ones keep their order.
func Closest[T any](candidates []T, n int, distance func(T) int) []T {
	sorted := slices.Clone(candidates)
	slices.SortStableFunc(sorted, func(a, b T) int { return distance(a) - distance(b) })
	return sorted[:min(n, len(sorted))]
}

// Name returns the name closest to text, or the only one that begins with it. It returns "" if none is close enough to be what
// was meant.
func Name(text string, names []string) string {
	begin := slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return len(text) < 3 || !strings.HasPrefix(name, text) })
	if len(begin) == 1 {
		return begin[0]
	}
	distance := func(name string) int { return Distance(text, name) }
	if best := Closest(names, 1, distance); len(best) == 1 && distance(best[0]) <= (len(text)+2)/3 {
		return best[0]
	}
	return ""
}

// DidYouMean returns the question "did you mean NAME? " about the name closest to text, or "" if none is close enough.
func DidYouMean(text string, names []string) string {
	if name := Name(text, names); name != "" {
		return "did you mean " + name + "? "
	}
	return ""
}
