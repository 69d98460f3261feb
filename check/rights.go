package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/export/plan"
	"kubecdc/internal/kubeapi"
	"kubecdc/source/discovery"
)

var listAndWatch = []string{"list", "watch"}

// checkRights reviews the rights of this user with SelfSubjectAccessReviews: rights that an export requires, and optional ones.
func (r *report) checkRights(ctx context.Context, planned plan.Config, selected []change.Resource) error {
	config := rest.CopyConfig(r.cluster.REST)
	config.QPS, config.Burst = 200, 200 // two short requests per resource
	client, err := kubeapi.Group(config, authorization.SchemeGroupVersion, authorization.AddToScheme)
	if err != nil {
		return err
	}
	var missing []string
	for _, resource := range selected {
		for _, stream := range planned.StreamsOf(resource) {
			name := change.NewStream(resource, stream.Namespace, "", "").ID()
			some, err := refused(ctx, client, resource, stream.Namespace, string(name), listAndWatch...)
			if err != nil {
				return err
			}
			missing = append(missing, some...)
		}
	}
	if len(missing) > 0 {
		err = errors.New("not allowed: " + strings.Join(missing, ", ") + "\ngrant list and watch on them: " + r.howToGrant(ctx))
	}
	return errors.Join(err, r.checkOtherRights(ctx, client), r.checkLeases(ctx, client, selected))
}

func (r *report) checkOtherRights(ctx context.Context, client rest.Interface) error {
	var removed, triggered []string
	for _, right := range discovery.RemovalRights {
		one, err := refused(ctx, client, right.Resource, "", right.Resource.ID(), right.Verb)
		if err != nil {
			return err
		}
		both, err := refused(ctx, client, right.Resource, "", right.Resource.ID(), listAndWatch...)
		if err != nil {
			return err
		}
		removed, triggered = append(removed, one...), append(triggered, both...)
	}
	r.warnMissing(ctx, removed, "if a resource is removed, its objects would not be recorded as deleted")
	r.warnMissing(ctx, triggered, "a resource that is installed or removed is seen up to a minute later")
	return nil
}

// checkLeases reviews whether recoveries may list the metadata of Leases, if the export does not include Leases.
func (r *report) checkLeases(ctx context.Context, client rest.Interface, selected []change.Resource) error {
	leases := change.Resource{Group: "coordination.k8s.io", Plural: "leases"}
	if slices.ContainsFunc(selected, func(s change.Resource) bool { return s.ID() == leases.ID() }) {
		return nil
	}
	missing, err := refused(ctx, client, leases, "", leases.ID(), "list")
	r.warnMissing(ctx, missing, "a gap takes several times as many requests, since Leases are written most and their revisions "+
		"can't be told")
	return err
}

func (r *report) warnMissing(ctx context.Context, rights []string, without string) {
	if len(rights) > 0 {
		r.warn("resources", "not allowed: "+strings.Join(rights, ", ")+": "+without+"\n"+r.howToGrant(ctx))
	}
}

// refused returns the verbs that this user may not use on a resource, with the resource's name.
func refused(
	ctx context.Context, client rest.Interface, resource change.Resource, namespace, name string, verbs ...string,
) (refused []string, err error) {
	for _, verb := range verbs {
		ok, err := allowed(ctx, client, resource, namespace, verb)
		if err != nil {
			return nil, fmt.Errorf("review the rights of this user: %w", err)
		}
		if !ok {
			refused = append(refused, verb+" "+name)
		}
	}
	return refused, nil
}

func allowed(ctx context.Context, client rest.Interface, r change.Resource, namespace, verb string) (bool, error) {
	review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Namespace: namespace, Verb: verb, Group: r.Group,
			Resource: r.Plural},
	}}
	answer := &authorization.SelfSubjectAccessReview{}
	err := client.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer)
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
