package checkpoint

import "kubecdc/change"

// Binding is the cluster that a checkpoint belongs to.
type Binding struct {
	ID    string                 // the first known uid or CA of the cluster: it never changes, and is also in the log
	Known change.ClusterIdentity // all that is known of it now
}

// Match compares a found cluster with the bound one. It returns the updated binding, and whether both are the same cluster. If
// both have a uid, the uid decides, since CAs are replaced. Otherwise the CA decides.
func (b Binding) Match(found change.ClusterIdentity) (next Binding, same bool) {
	if b.Known.UID != "" && found.UID != "" {
		same = b.Known.UID == found.UID
	} else {
		same = b.Known.CA != "" && b.Known.CA == found.CA
	}
	if !same {
		return b, false
	}
	if found.UID != "" {
		b.Known.UID = found.UID
	}
	if found.CA != "" {
		b.Known.CA = found.CA
	}
	b.Known.Hidden = found.Hidden
	return b, true
}

// UIDHidden reports whether the uid is known, but can't be read any more.
func (b Binding) UIDHidden() bool { return b.Known.UID != "" && b.Known.Hidden != "" }
