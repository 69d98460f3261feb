package past

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/screen"
	"kubecdc/internal/suggest"
	"kubecdc/query/timeline"
)

// completeness says in words how far an answer is complete, for its last line. The question ends at the time asked, or at a
// version if asked is zero.
func completeness(coverage []timeline.Coverage, missing []string, now, asked time.Time) string {
	if len(missing) > 0 {
		text, named := doubt(coverage, missing, now)
		text = "⚠ " + text
		if n := len(missing) - named; n > 0 {
			text += fmt.Sprintf("; and %d more: -o json names them on stderr", n)
		}
		return text
	}
	coverage = slices.DeleteFunc(slices.Clone(coverage), func(c timeline.Coverage) bool { return c.SinceTime.IsZero() })
	if len(coverage) == 0 {
		return ""
	}
	slices.SortFunc(coverage, func(a, b timeline.Coverage) int { return a.SinceTime.Compare(b.SinceTime) })
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
		text += fmt.Sprintf("; %d of %d resources since later, the last since %s", later, len(coverage),
			screen.Clock(last.SinceTime, now))
	}
	return text + unknownEnd(coverage, now, asked)
}

// unknownEnd names the resources that the log does not have up to the requested moment. Either nobody writes the log any more, or
// nobody exports these resources.
func unknownEnd(coverage []timeline.Coverage, now, asked time.Time) string {
	var stale []timeline.Coverage
	for _, c := range coverage {
		if timeline.IsStale(c.End, asked) {
			stale = append(stale, c)
		}
	}
	if len(stale) == 0 {
		return ""
	}
	first := slices.MinFunc(stale, func(a, b timeline.Coverage) int { return a.End.Compare(b.End) })
	switch {
	case len(stale) == len(coverage):
		return " until " + screen.Clock(first.End, now) + ", where the log ends"
	case len(stale) == 1:
		return "; " + change.ResourceOf(first.Stream).ID() + " only until " + screen.Clock(first.End, now)
	}
	return fmt.Sprintf("; %d of %d resources only until earlier, the first until %s", len(stale), len(coverage),
		screen.Clock(first.End, now))
}

// lastEnd returns when the log ends for the last of some resources.
func lastEnd(coverage []timeline.Coverage) (end time.Time) {
	for _, c := range coverage {
		if c.End.After(end) {
			end = c.End
		}
	}
	return end
}

// doubt names the gaps whose changes may be missing, or else the first of the other reasons. It returns how many of the reasons
// it names.
func doubt(coverage []timeline.Coverage, missing []string, now time.Time) (text string, named int) {
	var all []timeline.GapTime
	var resources []string
	for _, c := range coverage {
		if all = append(all, c.Gaps...); len(c.Gaps) > 0 {
			resources = append(resources, suggest.Short(change.ResourceOf(c.Stream).ID()))
		}
	}
	if len(all) == 0 {
		return withLocalTimes(strings.Join(strings.Fields(missing[0]), " ")), 1
	}
	resources = slices.Compact(slices.Sorted(slices.Values(resources)))
	from := slices.MinFunc(all, func(a, b timeline.GapTime) int { return a.From.Compare(b.From) }).From
	last := slices.MaxFunc(all, func(a, b timeline.GapTime) int { return a.To.Compare(b.To) })
	span := "before " + screen.Clock(last.To, now)
	if !from.IsZero() {
		span = "between " + screen.Clock(from, now) + " and " + screen.Clock(last.To, now)
	}
	what := resources[0]
	switch more := len(resources) - 1; {
	case more == 1:
		what += " and " + resources[1]
	case more > 1:
		what += fmt.Sprintf(" and %d more resources", more)
	}
	return "changes of " + what + " " + span + " may be missing: " + last.Reason, len(all)
}

// unlisted returns the first resource whose first list is not complete, or "".
func unlisted(coverage []timeline.Coverage) string {
	for _, c := range coverage {
		if c.Unlisted {
			return change.ResourceOf(c.Stream).ID()
		}
	}
	return ""
}
