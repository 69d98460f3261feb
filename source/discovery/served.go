package discovery

import (
	"slices"

	"kubecdc/change"
)

// Served is what the API server serves now.
type Served struct {
	all       []change.Resource   // every version of every resource that can be listed and watched
	versions  map[string]string   // group → preferred version
	byVersion map[string]bool     // resource id → its group's preferred version has it
	short     map[string][]string // resource id → kubectl's short names
	failed    map[string]bool     // groups that could not be read (an aggregated API server is down)
}

// preferred reports whether r has the version to read: the group's preferred version or, if that does not have the resource, the
// first version that has it.
func (s Served) preferred(r change.Resource) bool {
	if preferred := s.versions[r.Group]; r.Version == preferred || s.byVersion[r.ID()] {
		return r.Version == preferred
	}
	i := slices.IndexFunc(s.all, func(other change.Resource) bool { return other.ID() == r.ID() })
	return i >= 0 && s.all[i].Version == r.Version
}

// Long replaces each of kubectl's short names by the id of the first resource that has it.
func (s Served) Long(names []string) []string {
	long := slices.Clone(names)
	for i, name := range long {
		at := slices.IndexFunc(s.all, func(r change.Resource) bool { return slices.Contains(s.short[r.ID()], name) })
		if at >= 0 {
			long[i] = s.all[at].ID()
		}
	}
	return long
}

func (s *Served) add(r change.Resource, short []string) {
	s.all = append(s.all, r)
	s.short[r.ID()] = short
	if r.Version == s.versions[r.Group] {
		s.byVersion[r.ID()] = true
	}
}
