package change

import (
	"fmt"
	"slices"
)

// ClusterIdentity identifies a cluster, independently of its address and of its name in a kubeconfig. One of UID and CA is
// enough. If the uid becomes readable later, the cluster is the same as long as its CA is.
type ClusterIdentity struct {
	UID    string // the uid of namespace kube-system, or empty if it may not be read or does not exist
	CA     string // fingerprint of the CA certificates in the kubeconfig, or empty if it has none
	Hidden string // why UID is empty: the API server's message
}

// ID is the uid if it is known, else the CA.
func (i ClusterIdentity) ID() string {
	if i.UID != "" {
		return i.UID
	}
	return i.CA
}

// IDs are all known identifiers, the uid first.
func (i ClusterIdentity) IDs() []string {
	return slices.DeleteFunc([]string{i.UID, i.CA}, func(id string) bool { return id == "" })
}

func (i ClusterIdentity) String() string {
	switch {
	case i.UID == "":
		return fmt.Sprintf("CA %s, uid not known", i.CA)
	case i.CA == "":
		return "uid " + i.UID
	}
	return fmt.Sprintf("uid %s, CA %s", i.UID, i.CA)
}
