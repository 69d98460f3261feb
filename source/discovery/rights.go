package discovery

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubecdc/change"
)

// Rights are what the exporter uses besides list and watch on what it exports. get and list tell whether a resource was removed
// (RemovalRights), and which one an aggregated API server serves; list and watch show at once that the selection may have changed.
// The uid of kube-system identifies the cluster.
var Rights = []rbacv1.PolicyRule{
	{APIGroups: []string{triggers[0].Group}, Resources: []string{triggers[0].Plural}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{triggers[1].Group}, Resources: []string{triggers[1].Plural}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
}

// Named returns what the patterns name, as if the API server served it. ok is false if one of them is a wildcard: what that
// stands for only the API server knows.
func Named(patterns []Pattern) (served Served, ok bool) {
	for _, p := range patterns {
		if p.wild() {
			return served, false
		}
		r := change.Resource{Group: p.group, Version: p.version, Plural: p.resource, Namespaced: true}
		if !slices.Contains(served.all, r) {
			served.all = append(served.all, r)
		}
	}
	return served, true
}
