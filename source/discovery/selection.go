package discovery

import (
	"slices"
	"sort"

	"kubecdc/change"
)

// Selection is what the patterns select at one time.
type Selection struct {
	Resources []change.Resource
	// Unsure are groups that could not be read: what was selected of them before stays selected.
	Unsure map[string]bool

	discovery *Server
	patterns  []Pattern
	served    Served
	doubts    map[string]error // by id of resources in Resources that discovery does not show (removal.go)
}

// aliases are pairs of resources in two groups that have the same objects. If both are matched, the second is left out. Both
// are served from the same storage, so their uids and resourceVersions are the same.
var aliases = [][2]string{
	{"events", "events.events.k8s.io"},
	{"ingresses.networking.k8s.io", "ingresses.extensions"},
	{"networkpolicies.networking.k8s.io", "networkpolicies.extensions"},
	{"deployments.apps", "deployments.extensions"},
	{"daemonsets.apps", "daemonsets.extensions"},
	{"replicasets.apps", "replicasets.extensions"},
}

// Select returns the resources that the patterns select, each once, in the order of their ids. unknown are the patterns without
// a wildcard that match nothing; those with ! are in the result of Unmatched instead.
func Select(patterns []Pattern, served Served) (selected []change.Resource, unknown []Pattern) {
	picked := map[string]change.Resource{}
	for _, p := range patterns {
		found := p.not
		for _, r := range served.all {
			if !p.selects(r) || p.version == "" && !served.preferred(r) {
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

// Unmatched returns the patterns without a wildcard that match nothing that is served.
func Unmatched(patterns []Pattern, served Served) (unmatched []Pattern) {
	for _, p := range patterns {
		if !p.wild() && !served.failed[p.group] && !slices.ContainsFunc(served.all, p.names) {
			unmatched = append(unmatched, p)
		}
	}
	return unmatched
}

// LeftOut returns the patterns with ! in front.
func LeftOut(patterns []Pattern) (out []Pattern) {
	for _, p := range patterns {
		if p.not {
			out = append(out, p)
		}
	}
	return out
}
