package main

import (
	"context"
	"fmt"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/export"
	"kubecdc/internal/kubeapi"
	"kubecdc/source/discovery"
)

// forbidden asks the API server what of the resources this user may not list or watch.
func (r *report) forbidden(ctx context.Context, plan export.Config, resources []change.Resource) (refused []string, err error) {
	config := rest.CopyConfig(r.cluster.REST)
	config.QPS, config.Burst = 200, 200 // two short questions a resource
	client, err := kubeapi.Group(config, authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return nil, err
	}
	for _, resource := range resources {
		for _, stream := range plan.StreamsOf(resource) {
			for _, verb := range []string{"list", "watch"} {
				ok, err := allowed(ctx, client, resource, stream.Namespace, verb)
				if err != nil {
					return nil, fmt.Errorf("ask what this user may do: %w", err)
				}
				if !ok {
					refused = append(refused, verb+" "+string(change.NewStream(resource, stream.Namespace, "", "").ID()))
				}
			}
		}
	}
	return refused, nil
}

// blind asks which of the rights are missing by which a removed resource is told from one that is not shown for now.
func (r *report) blind(ctx context.Context) (missing []string, err error) {
	client, err := kubeapi.Group(rest.CopyConfig(r.cluster.REST), authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return nil, err
	}
	for _, right := range discovery.RemovalRights {
		ok, err := allowed(ctx, client, right.Resource, "", right.Verb)
		if err != nil {
			return nil, fmt.Errorf("ask what this user may do: %w", err)
		}
		if !ok {
			missing = append(missing, right.Verb+" "+right.Resource.ID())
		}
	}
	return missing, nil
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
