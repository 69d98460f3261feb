package discovery

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubecdc/change"
)

// Rights are the rights that the exporter uses in addition to list and watch on the exported resources. get and list show whether
// a resource was removed (RemovalRights), and which resource an aggregated API server serves. list and watch show at once that
// the selection may have changed. The uid of kube-system identifies the cluster. If Leases are not exported, their metadata
// explains revisions to recoveries. A cluster may have taken from its users a right that all users have by default: to read what
// it serves.
var Rights = []rbacv1.PolicyRule{
	{APIGroups: []string{crds.Group}, Resources: []string{crds.Plural}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{apiServices.Group}, Resources: []string{apiServices.Plural}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}},
	{NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/version"}, Verbs: []string{"get"}},
}

// coreResources are the resources of the core group, to which Kubernetes adds none any more.
var coreResources = []string{"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims",
	"persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts",
	"services"}

// Named returns what the patterns name, as if the API server served it. ok is false if only the API server knows what a pattern
// stands for. Such patterns are wildcards, and names without a group that are not in the core group, such as deploy.
func Named(patterns []Pattern) (served Served, ok bool) {
	for _, p := range patterns {
		if p.wild() || p.group == "" && !slices.Contains(coreResources, p.resource) {
			return served, false
		}
		r := change.Resource{Group: p.group, Version: p.version, Plural: p.resource, Namespaced: true}
		if !slices.Contains(served.all, r) {
			served.all = append(served.all, r)
		}
	}
	return served, true
}
