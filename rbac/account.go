// Package rbac makes a ServiceAccount with the rights that an export needs: those that the packages which make the requests name.
package rbac

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kubecdc/change"
	"kubecdc/internal/web"
	"kubecdc/source/discovery"
)

// Account is a ServiceAccount and its rights. The chart's templates/rbac.yaml makes the same objects.
type Account struct {
	Name, Namespace string
	User            string // if set, the rights are this user's, and not the ServiceAccount's
	Aggregate       bool   // bind also a role that collects the rules of labelled ClusterRoles
	Reviews         bool   // the API server decides who may read the status page
}

type Object map[string]any

// aggregateLabel marks ClusterRoles whose rules the control plane adds to the aggregated one.
const aggregateLabel = "kubecdc/aggregate-to-exporter"

// Objects returns the account, and the roles and bindings for the streams.
func (a *Account) Objects(streams []*change.Stream) []Object {
	exported := exportedRules(streams)
	var objects []Object
	if a.User == "" {
		objects = append(objects, object("v1", "ServiceAccount", a.Name, a.Namespace, nil))
	}
	rules := append(exported[""], discovery.Rights...)
	if a.Reviews {
		rules = append(rules, web.ReviewRights...)
	}
	objects = append(objects, a.grant(a.roleName(""), "", rules)...)
	delete(exported, "")
	namespaces := slices.Sorted(maps.Keys(exported))
	for _, ns := range namespaces {
		objects = append(objects, a.grant(a.roleName(""), ns, exported[ns])...)
	}
	if a.Aggregate {
		objects = append(objects, a.aggregated(namespaces)...)
	}
	return objects
}

// roleName returns the name of a role and its binding. They are outside of the account's namespace, where an account of another
// namespace with the same name has its own.
func (a *Account) roleName(suffix string) string {
	if a.User != "" {
		return a.Name + suffix + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(a.User)
	}
	if a.Name == a.Namespace {
		return a.Name + suffix
	}
	return a.Name + suffix + ":" + a.Namespace
}

// exportedRules returns list and watch on the streams' resources, by namespace, with a rule for each API group.
func exportedRules(streams []*change.Stream) map[string][]rbacv1.PolicyRule {
	rules := map[string][]rbacv1.PolicyRule{}
	slices.SortFunc(streams, func(a, b *change.Stream) int {
		return slices.Compare([]string{a.Resource.Group, a.Resource.Plural}, []string{b.Resource.Group, b.Resource.Plural})
	})
	for _, s := range streams {
		list := rules[s.Namespace]
		if len(list) == 0 || list[len(list)-1].APIGroups[0] != s.Resource.Group {
			list = append(list, rbacv1.PolicyRule{APIGroups: []string{s.Resource.Group}, Verbs: []string{"list", "watch"}})
		}
		last := &list[len(list)-1]
		last.Resources = append(last.Resources, s.Resource.Plural)
		rules[s.Namespace] = list
	}
	return rules
}

// grant returns a role in a namespace, or in all of them, and its binding.
func (a *Account) grant(name, namespace string, rules []rbacv1.PolicyRule) []Object {
	kind := "ClusterRole"
	if namespace != "" {
		kind = "Role"
	}
	return []Object{object(rbacv1.SchemeGroupVersion.String(), kind, name, namespace, Object{"rules": rules}),
		a.binding(kind, name, namespace)}
}

// aggregated returns the role that collects the rules of labelled ClusterRoles, and binds it where streams are exported from.
// It has no rules: they belong to the control plane, and kubectl apply would be a conflict with it, or remove them for a moment.
func (a *Account) aggregated(namespaces []string) []Object {
	name := a.roleName("-aggregated")
	selector := Object{"matchLabels": Object{aggregateLabel: "true"}}
	objects := []Object{object(rbacv1.SchemeGroupVersion.String(), "ClusterRole", name, "", Object{
		"aggregationRule": Object{"clusterRoleSelectors": []Object{selector}}})}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		objects = append(objects, a.binding("ClusterRole", name, ns))
	}
	return objects
}

func (a *Account) binding(roleKind, name, namespace string) Object {
	kind := "ClusterRoleBinding"
	if namespace != "" {
		kind = "RoleBinding"
	}
	subject := Object{"kind": rbacv1.ServiceAccountKind, "name": a.Name, "namespace": a.Namespace}
	if a.User != "" {
		subject = Object{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": a.User}
	}
	return object(rbacv1.SchemeGroupVersion.String(), kind, name, namespace, Object{
		"roleRef": Object{"apiGroup": rbacv1.GroupName, "kind": roleKind, "name": name}, "subjects": []Object{subject}})
}

func object(version, kind, name, namespace string, fields Object) Object {
	metadata := Object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	o := Object{"apiVersion": version, "kind": kind, "metadata": metadata}
	maps.Copy(o, fields)
	return o
}
