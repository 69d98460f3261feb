package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// nearest gives the name most like the text, or "" when none is close enough to be what was meant.
func nearest(text string, names []string) string {
	best, distance := "", len(text)/3+1
	for _, name := range names {
		d := levenshtein.ComputeDistance(strings.ToLower(text), strings.ToLower(name))
		if d <= distance && (best == "" || d < distance) {
			best, distance = name, d
		}
	}
	return best
}

// DidYouMean asks for the name most like the text, with a space after it, or is "" when none is close enough.
func DidYouMean(text string, names []string) string {
	if near := nearest(text, names); near != "" {
		return "did you mean " + near + "? "
	}
	return ""
}
