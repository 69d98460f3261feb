package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/sinks"
)

// RemovePending removes missing objects from a result whose deletion the log has, at a version after the position, and counts
// them as pending. The deletion of an Event moves no position, since several Events expire at one revision
// (source/reflector/leased.go).
func RemovePending(ctx context.Context, r *Result, s *change.Stream, log sinks.Reader) error {
	missing := map[string]*Object{}
	for _, d := range r.Differences {
		if d.Kind == Missing {
			missing[d.Key] = d.Live
		}
	}
	if len(missing) == 0 {
		return nil
	}
	last, deleted := map[string]change.ResourceVersion{}, map[string]bool{}
	q := sinks.Query{Resources: []string{s.Resource.ID()}, NoBodies: true, Wanted: func(l *sinks.Logged) bool {
		live := missing[l.Change.Key()]
		return live != nil && live.UID == l.UID
	}}
	err := log.Changes(ctx, q, func(l *sinks.Logged) error {
		if key := l.Change.Key(); l.ResourceVersion.Compare(last[key]) >= 0 { // partitions have no order among them
			last[key] = change.ResourceVersion(strings.Clone(string(l.ResourceVersion)))
			deleted[key] = l.Op == change.Delete && l.ResourceVersion.Compare(r.ResourceVersion) > 0
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find the deletions of %s: %w", s.ID(), err)
	}
	r.Differences = slices.DeleteFunc(r.Differences, func(d Difference) bool {
		if d.Kind != Missing || !deleted[d.Key] {
			return false
		}
		r.Pending++
		return true
	})
	return nil
}
