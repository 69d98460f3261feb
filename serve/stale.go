package serve

import (
	"fmt"
	"slices"
	"time"

	"kubecdc/query/timeline"
)

// endAnnotation is for bookmarks at the end of a log that nobody writes. Its value is by when the log has all.
const endAnnotation = "kubecdc/log-ends-at"

// isStale reports whether a log that has all by a time does not tell of the present.
func (s *Server) isStale(upTo time.Time) bool {
	return timeline.IsStale(upTo, s.now())
}

// doubts returns the reasons why an answer from a view may lack something, such as that the log ends long before the present.
func (s *Server) doubts(v *view, missing []string) []string {
	if upTo := v.pages.Current; v.end != nil && s.isStale(upTo) {
		return append([]string{fmt.Sprintf("%s: the log ends at %s, and this is the state then: is exporter run stopped?",
			v.Resource,
			upTo.UTC().Format(time.RFC3339))}, slices.Clone(missing)...)
	}
	return missing
}

// clock returns the time that ages are relative to.
func (s *Server) clock(v *view) time.Time {
	if v.time.IsZero() || v.end != nil && !s.isStale(v.pages.Current) {
		return s.now()
	}
	return v.time
}
