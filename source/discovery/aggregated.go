package discovery

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
)

// For a resource that kube-apiserver keeps in etcd two things are known: a revision writes one key, and remainingItemCount is
// exact at that revision. An aggregated API server has its own store, for which neither is known. Its gaps are recovered
// without them: every revision is read, and objects are counted one by one. Else a gap record could say "complete" wrongly.

// builtIn are the groups that kube-apiserver serves itself. They are used if APIServices may not be read.
var builtIn = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io",
	"authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
	"events.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
	"policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	"storagemigration.k8s.io",
}

// Aggregated reports whether an aggregated API server may serve the resource. It does if its APIService says so, or if APIServices may
// not be read and the group is not built in.
func Aggregated(ctx context.Context, client *apiclient.Client, r change.Resource) (bool, error) {
	if r.Group == "" {
		return false, nil // the core group can't be aggregated
	}
	if delegated, known := client.Delegated(apiService(r)); known {
		return delegated, nil
	}
	var service struct{ Spec struct{ Service *struct{} } }
	err := client.ReadJSON(ctx, "/apis/apiregistration.k8s.io/v1/apiservices/"+apiService(r), "", &service)
	switch {
	case apierrors.IsNotFound(err): // a server without aggregation
		return false, nil
	case apiclient.IsRefused(err):
		return isNotBuiltIn(r), nil
	case err != nil:
		return true, err
	}
	return service.Spec.Service != nil, nil
}

// AllAggregated returns what Aggregated reports of every resource, by one list of the APIServices.
func AllAggregated(ctx context.Context, client *apiclient.Client) (func(change.Resource) bool, error) {
	d := delegated{client: client}
	_, err := d.read(ctx, change.NewStream(triggers[1], "", "", ""))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return func(r change.Resource) bool { return d.names[apiService(r)] }, nil
	case apiclient.IsRefused(err):
		return isNotBuiltIn, nil
	}
	return nil, err
}

// apiService is the name of the APIService that serves a resource.
func apiService(r change.Resource) string { return r.Version + "." + r.Group }

func isNotBuiltIn(r change.Resource) bool { return !slices.Contains(builtIn, r.Group) }

// delegated are the APIServices of aggregated API servers, by the watch that Follow has open. While it is open they need not be read.
type delegated struct {
	client *apiclient.Client
	names  map[string]bool
}

func (d *delegated) read(ctx context.Context, all *change.Stream) (change.ResourceVersion, error) {
	d.names = map[string]bool{}
	return d.client.ListAll(ctx, all, apiclient.ListOptions{Limit: 500}, func(_ *apiclient.Page, o *apiclient.Object, _ error) error {
		d.names[o.Name] = isDelegated(o)
		return nil
	})
}

func isDelegated(o *apiclient.Object) bool {
	service := string(rawjson.Member(rawjson.Member(o.Raw, "spec"), "service"))
	return service != "" && service != "null"
}

// follow takes an event of the watch, or the state before the first one.
func (d *delegated) follow(e apiclient.Event) {
	d.names = maps.Clone(d.names)
	switch e.Type {
	case "ADDED", "MODIFIED":
		d.names[e.Object.Name] = isDelegated(&e.Object)
	case "DELETED":
		delete(d.names, e.Object.Name)
	}
	d.client.SetDelegated(d.names)
}
