package discovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/change"
)

// Selection is what the patterns select at one time.
type Selection struct {
	Resources []change.Resource
	// Unsure are groups that could not be read. Resources of these groups that were selected before are still selected.
	Unsure map[string]bool

	discovery *Server
	patterns  []Pattern
	served    Served
	doubts    map[string]error // by id of resources in Resources that discovery does not show (removal.go)
}

// events are two resources that have the same objects. If both are matched, the second is left out. Both are served from the same
// storage, so their uids and resourceVersions are the same.
var events = [2]string{"events", "events.events.k8s.io"}

// Select returns the resources that the patterns select, each once, in the order of their ids. unknown are the patterns without a
// wildcard that match nothing. Patterns with ! are in the result of Unmatched instead.
func Select(patterns []Pattern, served Served) (selected []change.Resource, unknown []Pattern) {
	picked := map[string]change.Resource{}
	for _, p := range patterns {
		found := p.not
		for _, r := range served.all {
			if !p.selects(r) || p.version == "" && !served.preferred(r) {
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
	if _, ok := picked[events[0]]; ok {
		delete(picked, events[1])
	}
	for _, id := range slices.Sorted(maps.Keys(picked)) {
		selected = append(selected, picked[id])
	}
	return selected, unknown
}

// Served returns all resources that the API server serves, selected or not, each in the version to read.
func (s *Selection) Served() []change.Resource {
	return slices.DeleteFunc(slices.Clone(s.served.all), func(r change.Resource) bool { return !s.served.preferred(r) })
}

// APIResources returns the resources with their names.
func (s *Selection) APIResources() (all []change.APIResource) {
	for _, r := range s.Resources {
		named := s.served.named[r.ID()]
		named.Resource = r
		all = append(all, named)
	}
	return all
}

// Lacking says what the patterns select that does not exist: a group that can't be read, or a pattern that matches nothing. It
// returns nil if nothing is lacking. If a resource is removed later, its streams handle that.
func (s *Selection) Lacking() error {
	var lacks []string
	for _, p := range s.patterns {
		switch {
		case p.not:
		case p.all:
			for _, group := range slices.Sorted(maps.Keys(s.Unsure)) {
				if leftOut(s.patterns, change.Resource{Group: group, Plural: "*"}) {
					continue
				}
				lacks = append(lacks, fmt.Sprintf("%q: the API group %s can't be read, since its API server does not answer",
					p.text, group))
			}
		case s.Unsure[p.group]:
			lacks = append(lacks, fmt.Sprintf("%q: the API group can't be read, since its API server does not answer", p.text))
		case p.wild() && !slices.ContainsFunc(s.Resources, p.names):
			lacks = append(lacks, fmt.Sprintf("%q selects nothing: the API server serves no such resource", p.text))
		}
	}
	if lacks == nil {
		return nil
	}
	return errors.New("KUBECDC_RESOURCES: " + strings.Join(lacks, "; "))
}

// Unmatched returns the patterns without a wildcard that match nothing that is served.
func Unmatched(patterns []Pattern, served Served) []Pattern {
	return slices.DeleteFunc(slices.Clone(patterns), func(p Pattern) bool {
		return p.wild() || served.failed[p.group] || slices.ContainsFunc(served.all, p.names)
	})
}

// LeftOut returns the patterns that exclude resources (!PATTERN).
func LeftOut(patterns []Pattern) []Pattern {
	return slices.DeleteFunc(slices.Clone(patterns), func(p Pattern) bool { return !p.not })
}
