package discovery

import (
	"slices"
	"sort"

	"kubecdc/change"
)

// Selection is what the patterns select at one moment.
type Selection struct {
	Resources []change.Resource
	// Unsure are groups that could not be read: what was selected of them before still stands.
	Unsure map[string]bool

	discovery *Server
	patterns  []Pattern
	served    Served
	doubts    map[string]error // of resources that are in Resources though discovery does not show them (removal.go)
}

// aliases are resources that show the same objects in two groups: the second is left out where both are matched.
// Both are served from the same storage, so their uids and resourceVersions are the same.
var aliases = [][2]string{
	{"events", "events.events.k8s.io"},
	{"ingresses.networking.k8s.io", "ingresses.extensions"},
	{"networkpolicies.networking.k8s.io", "networkpolicies.extensions"},
	{"deployments.apps", "deployments.extensions"},
	{"daemonsets.apps", "daemonsets.extensions"},
	{"replicasets.apps", "replicasets.extensions"},
}

// Select picks the resources that the patterns name, each once, in a fixed order. unknown are the patterns without
// a wildcard that nothing matches; of those with !, Idle tells.
func Select(patterns []Pattern, served Served) (selected []change.Resource, unknown []Pattern) {
	picked := map[string]change.Resource{}
	for _, p := range patterns {
		found := p.not
		for _, r := range served.all {
			if !p.takes(r) || p.version == "" && !served.preferred(r) {
				continue
			}
			found = true
			if leftOut(patterns, r) {
				continue
			}
			if _, ok := picked[r.ID()]; !ok || p.version != "" {
				picked[r.ID()] = r
			}
		}
		if !found && !p.wild() && !served.failed[p.group] {
			unknown = append(unknown, p)
		}
	}
	for _, pair := range aliases {
		if _, ok := picked[pair[0]]; ok {
			delete(picked, pair[1])
		}
	}
	for _, r := range picked {
		selected = append(selected, r)
	}
	sort.Slice(selected, func(i, j int) bool { return selected[i].ID() < selected[j].ID() })
	return selected, unknown
}

// Idle gives what names nothing that is served, of the patterns without a wildcard.
func Idle(patterns []Pattern, served Served) (idle []Pattern) {
	for _, p := range patterns {
		if !p.wild() && !served.failed[p.group] && !slices.ContainsFunc(served.all, p.names) {
			idle = append(idle, p)
		}
	}
	return idle
}

// LeftOut gives the patterns with ! in front.
func LeftOut(patterns []Pattern) (out []Pattern) {
	for _, p := range patterns {
		if p.not {
			out = append(out, p)
		}
	}
	return out
}
