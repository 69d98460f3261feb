package reflector

import (
	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// A revision writes one key, with one exception: a lease that expires deletes all keys that hang on it, at one revision.
// Only Events have leases, and the API server gives many of them the same, so Events end in groups.
//
// A position at a revision says that all of the revision is told. Of Events that is known only when something newer comes:
// until then a deletion leaves the position where it was, and a crash between two deletions of a revision loses none. What
// the watch then tells again the index has already.

// leased reports whether objects of the resource expire.
func leased(r change.Resource) bool {
	return r.Plural == "events" && (r.Group == "" || r.Group == "events.k8s.io")
}

// passed is the position that a change leads to; empty: it stays.
func (s *Reflector) passed(op change.Op, version change.ResourceVersion) change.ResourceVersion {
	if op != change.Delete || !leased(s.stream.Resource) {
		return version
	}
	if version == s.held {
		return ""
	}
	before := s.held
	s.held = version
	return before
}

// told is the newest revision of which something is in the log.
func (s *Reflector) told() change.ResourceVersion {
	if s.held.Compare(s.position) > 0 {
		return s.held
	}
	return s.position
}

// repeats reports whether the Event tells once more of a deletion at the revision that is held back.
func (s *Reflector) repeats(e *apiclient.Event) bool {
	if s.held == "" || e.Type != "DELETED" || e.Err != nil || e.Object.Version.Compare(s.held) > 0 {
		return false
	}
	_, exists := s.known.Get(e.Object.Key())
	return !exists
}
