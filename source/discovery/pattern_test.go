package discovery_test

import (
	"testing"

	"kubecdc/source/discovery"
	"kubecdc/test/servers"
)

// Events are served under two groups and stored once: "*" takes them once, and either name alone still works.
func TestEventsAreSelectedOnce(t *testing.T) {
	api := must[*discovery.Server](t)(discovery.Connect(servers.Kube(t).Config))
	served, err := api.Served(t.Context())
	mustDo(t, err)
	for _, tc := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"*"}, "events"},
		{[]string{"events", "events.events.k8s.io"}, "events"},
		{[]string{"events.events.k8s.io"}, "events.events.k8s.io"},
	} {
		patterns, err := discovery.ParsePatterns(tc.patterns)
		mustDo(t, err)
		selected, unknown := discovery.Select(patterns, served)
		var got []string
		for _, r := range selected {
			if r.Plural == "events" {
				got = append(got, r.ID())
			}
		}
		if len(got) != 1 || got[0] != tc.want || len(unknown) > 0 {
			t.Errorf("%v selects %v (unknown: %v), want %s once", tc.patterns, got, unknown, tc.want)
		}
	}
}
