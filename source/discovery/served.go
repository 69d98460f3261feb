package discovery

import (
	"slices"

	"kubecdc/change"
)

// Served is what an API server serves: the resources that can be listed and watched, and the groups that could not be read.
type Served struct {
	// every version of every resource that can be listed and watched, the group's preferred one first
	all    []change.Resource
	reads  map[string]string             // resource id → the version to read: the first one
	named  map[string]change.APIResource // resource id → its last version, with names
	failed map[string]bool               // groups that could not be read (an aggregated API server is down)
}

// preferred reports whether r has the version to read.
func (s Served) preferred(r change.Resource) bool { return s.reads[r.ID()] == r.Version }

// Long replaces each of kubectl's short names by the id of the first resource that has it.
func (s Served) Long(names []string) []string {
	long := slices.Clone(names)
	for i, name := range long {
		found := slices.IndexFunc(s.all, func(r change.Resource) bool { return slices.Contains(s.named[r.ID()].Short, name) })
		if found >= 0 {
			long[i] = s.all[found].ID()
		}
	}
	return long
}

func (s *Served) add(r change.APIResource) {
	s.all = append(s.all, r.Resource)
	s.named[r.ID()] = r
	if s.reads[r.ID()] == "" {
		s.reads[r.ID()] = r.Version
	}
}
