package provenance_test

import (
	"fmt"
	"testing"

	"kubecdc/change"
	"kubecdc/change/provenance"
)

// A Node that becomes unready, or gets a label, is not a heartbeat.
func TestBookkeepingIsWhatAClusterDoesByItself(t *testing.T) {
	node := func(label, ready, beat string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"a":%q}},"spec":{},"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q}]}}`,
			beat, label, ready, beat)
	}
	for _, c := range []struct {
		resource      string
		before, after []byte
		want          bool
	}{
		{"nodes", node("b", "True", "1"), node("b", "True", "2"), true},
		{"nodes", node("b", "True", "1"), node("b", "False", "2"), false},
		{"nodes", node("b", "True", "1"), node("c", "True", "2"), false},
		{"nodes", nil, node("c", "True", "2"), false},
		{"leases.coordination.k8s.io", node("b", "True", "1"), node("c", "True", "2"), true},
		{"pods", node("b", "True", "1"), node("b", "True", "2"), false},
	} {
		got := provenance.IsBookkeeping(&change.Change{Stream: change.ParseStream(change.StreamID(c.resource)), Op: change.Update,
			Before: c.before, After: c.after})
		if got != c.want {
			t.Errorf("%s from %s to %s: %v", c.resource, c.before, c.after, got)
		}
	}
}
