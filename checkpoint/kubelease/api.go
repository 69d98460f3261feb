package kubelease

import (
	"context"

	coordination "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// api makes the requests for Lease objects of one namespace.
type api struct {
	client    rest.Interface
	namespace string
}

const resource = "leases"

// Rights are what the exporter uses in the namespace of its leases.
var Rights = []rbacv1.PolicyRule{{APIGroups: []string{coordination.GroupName}, Resources: []string{resource},
	Verbs: []string{"get", "list", "create", "update", "delete"}}}

func (a api) get(ctx context.Context, name string) (*coordination.Lease, error) {
	lease := &coordination.Lease{}
	return lease, a.client.Get().Namespace(a.namespace).Resource(resource).Name(name).Do(ctx).Into(lease)
}

func (a api) create(ctx context.Context, lease *coordination.Lease) error {
	return a.client.Post().Namespace(a.namespace).Resource(resource).Body(lease).Do(ctx).Error()
}

// update fails with a conflict where the lease was changed since it was read.
func (a api) update(ctx context.Context, lease *coordination.Lease) error {
	return a.client.Put().Namespace(a.namespace).Resource(resource).Name(lease.Name).Body(lease).Do(ctx).Error()
}

// delete deletes the lease as it was read; without a version, as it is.
func (a api) delete(ctx context.Context, name, version string) error {
	options := &metav1.DeleteOptions{}
	if version != "" {
		options.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
	}
	return a.client.Delete().Namespace(a.namespace).Resource(resource).Name(name).Body(options).Do(ctx).Error()
}

func (a api) list(ctx context.Context, selector string) (*coordination.LeaseList, error) {
	all := &coordination.LeaseList{}
	return all, a.client.Get().Namespace(a.namespace).Resource(resource).Param("labelSelector", selector).Do(ctx).Into(all)
}
