package checkpoint

import "kubecdc/change"

// Binding says which cluster a checkpoint belongs to.
type Binding struct {
	ID    string                 // the uid or CA by which the cluster was first known. Its log carries it, and it never changes
	Known change.ClusterIdentity // all that is known of it by now
}

// Match compares the cluster that was found with the bound one, and gives what is known after that. The uid decides if both
// have one: the CA may then be another, since CAs are replaced. Otherwise the CA decides.
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

// UIDHidden reports whether the uid is known, and can't be read any more.
func (b Binding) UIDHidden() bool { return b.Known.UID != "" && b.Known.Hidden != "" }
