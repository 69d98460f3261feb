package past

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/screen"
	"kubecdc/internal/suggest"
	"kubecdc/query"
)

// completeness says in words how far an answer is complete, for its last line.
func completeness(coverage []query.Coverage, missing []string, now time.Time) string {
	if len(missing) > 0 {
		text := "⚠ " + doubt(coverage, missing, now)
		if n := len(missing) - 1; n > 0 {
			text += fmt.Sprintf("; and %d more: -o json has them all on stderr", n)
		}
		return text
	}
	coverage = slices.DeleteFunc(slices.Clone(coverage), func(c query.Coverage) bool { return c.SinceTime.IsZero() })
	if len(coverage) == 0 {
		return ""
	}
	slices.SortFunc(coverage, func(a, b query.Coverage) int { return a.SinceTime.Compare(b.SinceTime) })
	first, last := coverage[0], coverage[len(coverage)-1]
	text := "complete since " + screen.Clock(first.SinceTime, now)
	later := 0
	for _, c := range coverage {
		if c.SinceTime.Sub(first.SinceTime) > time.Minute {
			later++
		}
	}
	switch {
	case later == 1:
		text += fmt.Sprintf("; %s since %s", change.ResourceOf(last.Stream).ID(), screen.Clock(last.SinceTime, now))
	case later > 1:
		text += fmt.Sprintf("; %d of %d resources since later, the last since %s", later, len(coverage), screen.Clock(last.SinceTime, now))
	}
	return text
}

// doubt names the first thing that may be missing.
func doubt(coverage []query.Coverage, missing []string, now time.Time) string {
	for _, c := range coverage {
		if len(c.Gaps) > 0 {
			g := c.Gaps[len(c.Gaps)-1]
			span := "before " + screen.Clock(g.To, now)
			if !g.From.IsZero() {
				span = "between " + screen.Clock(g.From, now) + " and " + screen.Clock(g.To, now)
			}
			return "changes of " + suggest.Short(change.ResourceOf(c.Stream).ID()) + " " + span + " may be missing: " + g.Reason
		}
	}
	return strings.Join(strings.Fields(missing[0]), " ")
}

// unlisted returns the first resource whose first list is not complete, or "".
func unlisted(coverage []query.Coverage) string {
	for _, c := range coverage {
		if c.Unlisted {
			return change.ResourceOf(c.Stream).ID()
		}
	}
	return ""
}
