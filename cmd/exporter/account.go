package main

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubecdc/change"
	"kubecdc/observe"
	"kubecdc/source/discovery"
)

// account is a ServiceAccount and its rights. The chart's templates/rbac.yaml makes the same objects.
type account struct {
	name, namespace string
	aggregate       bool
	reviews         bool // the API server decides who may read the status page
}

// object is a Kubernetes object.
type object map[string]any

// aggregateLabel marks ClusterRoles whose rules the control plane adds to the aggregated one.
const aggregateLabel = "kubecdc/aggregate-to-exporter"

// objects returns the account, and the roles and bindings for the streams.
func (a *account) objects(streams []*change.Stream) []object {
	exported := exportedRules(streams)
	objects := []object{newObject("v1", "ServiceAccount", a.name, a.namespace, nil)}
	rules := append(exported[""], discovery.Rights...)
	if a.reviews {
		rules = append(rules, observe.ReviewRights...)
	}
	objects = append(objects, a.grant(a.roleName(""), "", rules)...)
	delete(exported, "")
	namespaces := slices.Sorted(maps.Keys(exported))
	for _, ns := range namespaces {
		objects = append(objects, a.grant(a.roleName(""), ns, exported[ns])...)
	}
	if a.aggregate {
		objects = append(objects, a.aggregated(namespaces)...)
	}
	return objects
}

// roleName returns the name of a role and its binding. They are outside of the account's namespace, where an account of another
// namespace with the same name has its own.
func (a *account) roleName(suffix string) string {
	if a.name == a.namespace {
		return a.name + suffix
	}
	return a.name + suffix + ":" + a.namespace
}

// exportedRules returns list and watch on the streams' resources, by namespace, with a rule for each API group.
func exportedRules(streams []*change.Stream) map[string][]rbacv1.PolicyRule {
	rules := map[string][]rbacv1.PolicyRule{}
	slices.SortFunc(streams, func(a, b *change.Stream) int {
		return slices.Compare([]string{a.Resource.Group, a.Resource.Plural}, []string{b.Resource.Group, b.Resource.Plural})
	})
	for _, s := range streams {
		of := rules[s.Namespace]
		if len(of) == 0 || of[len(of)-1].APIGroups[0] != s.Resource.Group {
			of = append(of, rbacv1.PolicyRule{APIGroups: []string{s.Resource.Group}, Verbs: []string{"list", "watch"}})
		}
		last := &of[len(of)-1]
		last.Resources = append(last.Resources, s.Resource.Plural)
		rules[s.Namespace] = of
	}
	return rules
}

// grant returns a role in a namespace, or in all of them, and its binding.
func (a *account) grant(name, namespace string, rules []rbacv1.PolicyRule) []object {
	kind := "ClusterRole"
	if namespace != "" {
		kind = "Role"
	}
	return []object{newObject(rbacv1.SchemeGroupVersion.String(), kind, name, namespace, object{"rules": rules}),
		a.binding(kind, name, namespace)}
}

// aggregated returns the role that collects the rules of labelled ClusterRoles, and binds it where streams are exported from.
// It has no rules: they belong to the control plane, and kubectl apply would be a conflict with it, or remove them for a moment.
func (a *account) aggregated(namespaces []string) []object {
	name := a.roleName("-aggregated")
	selector := object{"matchLabels": object{aggregateLabel: "true"}}
	objects := []object{newObject(rbacv1.SchemeGroupVersion.String(), "ClusterRole", name, "", object{
		"aggregationRule": object{"clusterRoleSelectors": []object{selector}}})}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		objects = append(objects, a.binding("ClusterRole", name, ns))
	}
	return objects
}

func (a *account) binding(roleKind, name, namespace string) object {
	kind := "ClusterRoleBinding"
	if namespace != "" {
		kind = "RoleBinding"
	}
	return newObject(rbacv1.SchemeGroupVersion.String(), kind, name, namespace, object{
		"roleRef":  object{"apiGroup": rbacv1.GroupName, "kind": roleKind, "name": name},
		"subjects": []object{{"kind": rbacv1.ServiceAccountKind, "name": a.name, "namespace": a.namespace}}})
}

func newObject(version, kind, name, namespace string, fields object) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	o := object{"apiVersion": version, "kind": kind, "metadata": metadata}
	maps.Copy(o, fields)
	return o
}
