package discovery_test

import (
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/test/servers"
)

func patterns(t *testing.T, list string) []discovery.Pattern {
	t.Helper()
	p, err := discovery.ParsePatterns(strings.Split(list, ","))
	mustDo(t, err)
	return p
}

// No wildcard takes Secrets, and what has a ! in front is left out, also under its other name.
func TestSecretsAreTakenByNameOnlyAndLeftOutIsLeftOut(t *testing.T) {
	served, err := must[*discovery.Server](t)(discovery.Connect(servers.Kube(t).Config)).Served(t.Context())
	mustDo(t, err)
	for list, want := range map[string]string{
		"*":                                      "-secrets +configmaps +leases.coordination.k8s.io +events",
		"*.v1":                                   "-secrets +configmaps",
		"*,secrets":                              "+secrets +configmaps",
		"secrets.v1":                             "+secrets -configmaps",
		"!leases.coordination.k8s.io,*":          "-secrets +configmaps -leases.coordination.k8s.io",
		"*,!*.coordination.k8s.io":               "+configmaps -leases.coordination.k8s.io",
		"*,!events":                              "-events -events.events.k8s.io",
		"*,!events.events.k8s.io":                "-events -events.events.k8s.io",
		"*.apps,!deployments.apps,configmaps.v1": "+statefulsets.apps -deployments.apps +configmaps",
	} {
		selected, unknown := discovery.Select(patterns(t, list), served)
		has := map[string]bool{}
		for _, r := range selected {
			has[r.ID()] = true
		}
		for _, w := range strings.Fields(want) {
			if has[w[1:]] != (w[0] == '+') || len(unknown) > 0 {
				t.Errorf("%s: want %s, selected %v, unknown %v", list, w, has, unknown)
			}
		}
		if discovery.Selects(patterns(t, list), "secrets") != has["secrets"] {
			t.Errorf("%s: Selects is not what Select does", list)
		}
	}
	doubts := discovery.ExplainUnmatched("KUBECDC_REDACT", discovery.Unmatched(patterns(t, "configmap,*.none.example,!pods,!lease.coordination.k8s.io"), served), served)
	if text := strings.Join(doubts, "\n"); len(doubts) != 2 || !strings.Contains(text, `"configmap" has no effect`) || !strings.Contains(text, "did you mean configmaps?") || !strings.Contains(text, "leases.coordination.k8s.io") {
		t.Error(text)
	}
	// Names that mean one resource to kubectl, or are its kind, or lack its group.
	for name, want := range map[string]string{"po": "did you mean pods?", "deploy": "did you mean deployments.apps?",
		"sts.apps": "did you mean statefulsets.apps?", "deployments": "did you mean deployments.apps?",
		"ingress": "did you mean ingresses.networking.k8s.io?", "event": "did you mean events or events.events.k8s.io?",
		"confgmaps": "nearest: configmaps, "} {
		_, unknown := discovery.Select(patterns(t, name), served)
		if err := discovery.Unknown(unknown, served); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: lacks %q: %v", name, want, err)
		}
	}
}

// What is said of a resource holds in every version, for the same objects in another group, and by a wildcard for
// Secrets too.
func TestWhatPatternsCover(t *testing.T) {
	for list, want := range map[string]string{
		"*":                   "+secrets +pods",
		"secrets.v1":          "+secrets -pods",
		"deployments.v1.apps": "+deployments.apps -pods",
		"events":              "+events +events.events.k8s.io",
		"*,!pods":             "+secrets -pods",
	} {
		for _, w := range strings.Fields(want) {
			r := change.ResourceOf(change.StreamID(w[1:] + "@ns?labels=a.b"))
			r.Version = "v7"
			if discovery.Covers(patterns(t, list), r) != (w[0] == '+') {
				t.Errorf("%s: want %s", list, w)
			}
		}
	}
	for text, want := range map[string]string{"!*": "no resource", "!deployments.v1.apps": "write !deployments.apps", "!!pods": "no resource", "*.*": "no resource", "!": "no resource"} {
		if _, err := discovery.ParsePatterns([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
