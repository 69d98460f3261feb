package change

import "fmt"

// ClusterIdentity tells a cluster from all others, whatever its address and its name in a kubeconfig. One of the two is
// enough; a cluster whose uid becomes readable later is the same one as long as its CA is.
type ClusterIdentity struct {
	UID    string // of the namespace kube-system; empty where it may not be read, or there is none
	CA     string // fingerprint of the authorities that sign the API server's certificate; empty where none are named
	Hidden string // why UID is empty, in the server's words
}

// ID is the better one of the two.
func (i ClusterIdentity) ID() string {
	if i.UID != "" {
		return i.UID
	}
	return i.CA
}

// IDs are all that the cluster may be known by, the better one first.
func (i ClusterIdentity) IDs() (ids []string) {
	for _, id := range []string{i.UID, i.CA} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// String names both, for messages.
func (i ClusterIdentity) String() string {
	switch {
	case i.UID == "":
		return fmt.Sprintf("CA %s, uid not known", i.CA)
	case i.CA == "":
		return "uid " + i.UID
	}
	return fmt.Sprintf("uid %s, CA %s", i.UID, i.CA)
}
