package main

import (
	"context"
	"fmt"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/internal/kubeapi"
	"kubecdc/source/discovery"
)

// forbidden returns which of the resources this user may not list or watch, from SelfSubjectAccessReviews.
func (r *report) forbidden(ctx context.Context, plan export.Config, resources []change.Resource) (refused []string, err error) {
	config := rest.CopyConfig(r.cluster.REST)
	config.QPS, config.Burst = 200, 200 // two short requests per resource
	client, err := kubeapi.Group(config, authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return nil, err
	}
	for _, resource := range resources {
		for _, stream := range plan.StreamsOf(resource) {
			for _, verb := range []string{"list", "watch"} {
				ok, err := allowed(ctx, client, resource, stream.Namespace, verb)
				if err != nil {
					return nil, fmt.Errorf("review the rights of this user: %w", err)
				}
				if !ok {
					refused = append(refused, verb+" "+string(change.NewStream(resource, stream.Namespace, "", "").ID()))
				}
			}
		}
	}
	return refused, nil
}

// access is a right, and what goes wrong without it.
type access struct {
	resource  change.Resource
	namespace string
	verbs     []string
	without   string
}

// otherRights are those that an export needs besides list and watch on what it exports. All but those on leases can be missed.
func (r *report) otherRights() []access {
	var rights []access
	for _, right := range discovery.RemovalRights {
		rights = append(rights, access{right.Resource, "", []string{right.Verb}, "if a resource is removed, its objects would not be recorded as deleted"})
	}
	for _, right := range discovery.RemovalRights {
		rights = append(rights, access{right.Resource, "", []string{"list", "watch"}, "a resource that is installed or removed is seen up to a minute later"})
	}
	return rights
}

// checkOtherRights warns of missing rights. Those on leases are needed if KUBECDC_LEASES is kubernetes.
func (r *report) checkOtherRights(ctx context.Context) error {
	client, err := kubeapi.Group(rest.CopyConfig(r.cluster.REST), authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return err
	}
	missing := map[string][]string{} // by what goes wrong
	var order []string
	for _, a := range r.otherRights() {
		refused, err := a.refused(ctx, client)
		if err != nil {
			return err
		}
		if len(refused) > 0 && missing[a.without] == nil {
			order = append(order, a.without)
		}
		missing[a.without] = append(missing[a.without], refused...)
	}
	for _, without := range order {
		r.warn("resources", "not allowed: "+strings.Join(missing[without], ", ")+": "+without+"\n"+howToGrant)
	}
	if r.settings.Slots.Leases != "kubernetes" {
		return nil
	}
	leases := access{change.Resource{Group: "coordination.k8s.io", Plural: "leases"}, leaseNamespace(r.settings),
		[]string{"get", "list", "create", "update", "delete"}, ""}
	refused, err := leases.refused(ctx, client)
	if len(refused) > 0 {
		err = fmt.Errorf("not allowed in namespace %s: %s\ngrant it, since KUBECDC_LEASES is kubernetes: %s", leases.namespace,
			strings.Join(refused, ", "), howToGrant)
	}
	return err
}

// refused returns the verbs that this user may not use, each with its resource.
func (a access) refused(ctx context.Context, client rest.Interface) (refused []string, err error) {
	for _, verb := range a.verbs {
		ok, err := allowed(ctx, client, a.resource, a.namespace, verb)
		if err != nil {
			return nil, fmt.Errorf("review the rights of this user: %w", err)
		}
		if !ok {
			refused = append(refused, verb+" "+a.resource.ID())
		}
	}
	return refused, nil
}

func allowed(ctx context.Context, client rest.Interface, r change.Resource, namespace, verb string) (bool, error) {
	review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Namespace: namespace, Verb: verb, Group: r.Group, Resource: r.Plural},
	}}
	answer := &authorization.SelfSubjectAccessReview{}
	err := client.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer)
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
