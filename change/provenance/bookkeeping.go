package provenance

import (
	"bytes"
	"regexp"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// IsBookkeeping reports whether a change is one that a cluster makes by itself all the time. These are changes of Leases and
// Events, and updates of a Node that are only heartbeats.
func IsBookkeeping(c *change.Change) bool {
	switch change.ResourceOf(c.Stream.ID()).ID() {
	case "leases.coordination.k8s.io", "events", "events.events.k8s.io":
		return true
	case "nodes":
		return c.Op == change.Update && c.Before != nil && c.After != nil && isHeartbeat(c.Before, c.After)
	}
	return false
}

var beat = regexp.MustCompile(`"lastHeartbeatTime":"[^"]*"`)

// isHeartbeat reports whether two states of a Node differ only in what a kubelet's heartbeat changes.
func isHeartbeat(before, after []byte) bool {
	old, now := rawjson.Member(before, "metadata"), rawjson.Member(after, "metadata")
	for _, name := range []string{"labels", "annotations", "finalizers", "deletionTimestamp"} {
		if !rawjson.Same(rawjson.Member(old, name), rawjson.Member(now, name)) {
			return false
		}
	}
	return rawjson.Same(rawjson.Member(before, "spec"), rawjson.Member(after, "spec")) &&
		bytes.Equal(beat.ReplaceAll(rawjson.Member(before, "status"), nil), beat.ReplaceAll(rawjson.Member(after, "status"), nil))
}
