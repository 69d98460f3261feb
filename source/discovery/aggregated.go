package discovery

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
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

// Aggregated reports whether an aggregated API server may serve the resource. It does if its APIService says so, or if
// APIServices may not be read and the group is not built in.
func Aggregated(ctx context.Context, client *apiclient.Client, r change.Resource) (bool, error) {
	if aggregated, known := KnownAggregated(client, r); known {
		return aggregated, nil
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

// KnownAggregated returns what is known of a resource without a request. The core group can't be aggregated.
func KnownAggregated(client *apiclient.Client, r change.Resource) (aggregated, known bool) {
	shows, found := client.Followed(apiServices.Plural, apiService(r))
	return r.Group != "" && shows != 0, r.Group == "" || found
}

// AllAggregated returns what Aggregated reports of every resource, by one list of the APIServices.
func AllAggregated(ctx context.Context, client *apiclient.Client) (func(change.Resource) bool, error) {
	services := followed{client: client, all: change.NewStream(apiServices, "", "", "")}
	_, err := services.list(ctx)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return func(r change.Resource) bool { return services.shows[apiService(r)] != 0 }, nil
	case apiclient.IsRefused(err):
		return isNotBuiltIn, nil
	}
	return nil, err
}

// apiService is the name of the APIService that serves a resource.
func apiService(r change.Resource) string { return r.Version + "." + r.Group }

func isNotBuiltIn(r change.Resource) bool { return !slices.Contains(builtIn, r.Group) }
