package provenance

import (
	"bytes"
	"regexp"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// IsBookkeeping reports whether a cluster makes such changes all the time by itself: those of Leases and Events, and updates of a Node that
// are heartbeats and nothing else.
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

// isHeartbeat reports whether two states of a Node differ in nothing but what a kubelet's heartbeat changes.
func isHeartbeat(before, after []byte) bool {
	was, is := rawjson.Member(before, "metadata"), rawjson.Member(after, "metadata")
	for _, name := range []string{"labels", "annotations", "finalizers", "deletionTimestamp"} {
		if !rawjson.Same(rawjson.Member(was, name), rawjson.Member(is, name)) {
			return false
		}
	}
	return rawjson.Same(rawjson.Member(before, "spec"), rawjson.Member(after, "spec")) &&
		bytes.Equal(beat.ReplaceAll(rawjson.Member(before, "status"), nil), beat.ReplaceAll(rawjson.Member(after, "status"), nil))
}
