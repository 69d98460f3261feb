package suggest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kubecdc/internal/fault"
)

// short are kubectl's short names of built-in resources, for logs that are read without an API server. A caller that has an API
// server asks it for the others (discovery.Served.Long).
var short = map[string]string{"cj": "cronjobs.batch", "cm": "configmaps", "cs": "componentstatuses",
	"crd": "customresourcedefinitions.apiextensions.k8s.io", "crds": "customresourcedefinitions.apiextensions.k8s.io",
	"csr": "certificatesigningrequests.certificates.k8s.io", "deploy": "deployments.apps", "ds": "daemonsets.apps",
	"ep": "endpoints",
	"ev": "events", "hpa": "horizontalpodautoscalers.autoscaling", "ing": "ingresses.networking.k8s.io", "limits": "limitranges",
	"netpol": "networkpolicies.networking.k8s.io", "no": "nodes", "ns": "namespaces", "pc": "priorityclasses.scheduling.k8s.io",
	"pdb": "poddisruptionbudgets.policy", "po": "pods", "pv": "persistentvolumes", "pvc": "persistentvolumeclaims",
	"quota": "resourcequotas", "rc": "replicationcontrollers", "rs": "replicasets.apps", "sa": "serviceaccounts",
	"sc": "storageclasses.storage.k8s.io", "sts": "statefulsets.apps", "svc": "services"}

// Short returns the short name of a resource, as Like takes it: deploy. If a resource has no short name, Short returns its
// plural, without the group.
func Short(id string) string {
	best, _, _ := strings.Cut(id, ".")
	for name, long := range short {
		if long == id && (len(name) < len(best) || len(name) == len(best) && name < best) {
			best = name
		}
	}
	return best
}

// version is how kubectl tells a version from a group, in deployments.v1.apps.
var version = regexp.MustCompile(`^v[1-9][0-9a-z]*(\.|$)`)

// Like returns the resources that a name stands for, as kubectl takes it: a plural, singular or short name, alone or with a
// group. A resource with that name and no group comes before resources of other groups.
func Like(name string, known []string) (ids []string) {
	if slices.Contains(known, name) {
		return []string{name}
	}
	word, group, _ := strings.Cut(strings.ToLower(name), ".")
	group = version.ReplaceAllString(group, "")
	plurals := []string{word, word + "s", word + "es", strings.TrimSuffix(word, "y") + "ies"}
	if long := short[word]; long != "" {
		plural, apiGroup, _ := strings.Cut(long, ".")
		plurals, group = []string{plural}, cmp.Or(group, apiGroup)
	}
	for _, id := range known {
		plural, apiGroup, _ := strings.Cut(id, ".")
		switch {
		case !slices.Contains(plurals, plural) || slices.Contains(ids, id):
		case apiGroup == "" && group == "":
			return []string{id}
		case group == "" || group == apiGroup:
			ids = append(ids, id)
		}
	}
	return ids
}

// Several is the error for a name that stands for several resources.
func Several(name string, ids []string) error {
	return fault.Usagef("%q may be %s: name one of them", name, strings.Join(ids, " or "))
}

// Resources finds the known resource that each of some names stands for. missing begins the error if there is none.
func Resources(names, known []string, missing string) (ids []string, err error) {
	for _, name := range names {
		like := Like(name, known)
		switch len(like) {
		case 0:
			return nil, noResource(name, known, missing)
		case 1:
			ids = append(ids, like[0])
		default:
			return nil, Several(name, like)
		}
	}
	return ids, nil
}

func noResource(name string, known []string, missing string) error {
	names, plurals := slices.Clone(known), map[string]string{} // to ids
	for _, id := range known {
		plural, _, _ := strings.Cut(id, ".")
		names, plurals[plural] = append(names, plural), id
	}
	slices.Sort(names)
	near := Name(name, names)
	if near != "" {
		near = "did you mean " + cmp.Or(plurals[near], near) + "? "
	}
	const most = 10
	more := ""
	if n := len(known) - most; n > 0 {
		known, more = known[:most], fmt.Sprintf(" and %d more", n)
	}
	return fault.Usagef("%s %q: %sit has %s%s", missing, name, near, cmp.Or(strings.Join(known, ", "), "none"), more)
}
