package reflector

import (
	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// A revision of etcd writes one key, with one exception: when a lease expires, all of its keys are deleted at one revision.
// Only Events have leases, and the API server gives many of them the same lease, so Events are deleted in groups.
//
// A position at a revision says that the log has all of that revision. For Events that is known only when something newer comes.
// Until then a deletion does not move the position, so a crash between two deletions of a revision loses none. The watch repeats
// them after the crash. The known objects show which ones the log has.

func leased(r change.Resource) bool {
	return r.Plural == "events" && (r.Group == "" || r.Group == "events.k8s.io")
}

// positionAfter returns the position that a change leads to. An empty position changes nothing.
func (r *Reflector) positionAfter(op change.Op, version change.ResourceVersion) change.ResourceVersion {
	if op != change.Delete || !leased(r.stream.Resource) {
		return version
	}
	if version == r.heldBack {
		return ""
	}
	before := r.heldBack
	r.heldBack = version
	return before
}

func (r *Reflector) isRepeatedDelete(e *apiclient.Event) bool {
	if r.heldBack == "" || e.Type != "DELETED" || e.Object.Version.Compare(r.heldBack) > 0 {
		return false
	}
	_, exists := r.known.Get(e.Object.Key())
	return !exists
}
