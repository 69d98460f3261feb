package source

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
)

// A resource that discovery does not show is not yet removed: an API server that has just started shows none of the
// custom resources for a moment, and answers 404 to their requests. Taking that for a removal would record the
// deletion of objects that live. So it is asked for what registers the resource: the CRD and the API service, both
// read from etcd. Only where those may not be read, time decides.

// removalPatience is how long a resource must be missing where its registration can't be read.
const removalPatience = 2 * time.Minute

// removals remembers what was selected, and since when it is missing.
type removals struct {
	client   *Client
	selected map[string]change.Resource
	missing  map[string]time.Time
}

func newRemovals(client *Client) *removals {
	return &removals{client: client, selected: map[string]change.Resource{}, missing: map[string]time.Time{}}
}

// keep adds to the selection what was selected before and is not known to be removed. sure is false when it had to.
func (r *removals) keep(ctx context.Context, selected []change.Resource) (all []change.Resource, sure bool) {
	sure = true
	shown := map[string]bool{}
	for _, resource := range selected {
		shown[resource.ID()] = true
		r.selected[resource.ID()] = resource
		delete(r.missing, resource.ID())
	}
	for id, resource := range r.selected {
		switch {
		case shown[id]:
		case r.removed(ctx, resource):
			delete(r.selected, id)
			delete(r.missing, id)
		default:
			selected, sure = append(selected, resource), false
		}
	}
	return selected, sure
}

func (r *removals) removed(ctx context.Context, resource change.Resource) bool {
	since, ok := r.missing[resource.ID()]
	if !ok {
		since = time.Now()
		r.missing[resource.ID()] = since
	}
	registered, known := r.client.registered(ctx, resource.Plural, resource.Group, resource.Version)
	if known {
		return !registered
	}
	return time.Since(since) > removalPatience
}

// registered reports whether a CRD or an API service stands for the resource; known is false when that can't be told.
func (c *Client) registered(ctx context.Context, plural, group, version string) (registered, known bool) {
	paths := []string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + plural + "." + group}
	if version != "" {
		paths = append(paths, "/apis/apiregistration.k8s.io/v1/apiservices/"+version+"."+group)
	}
	for i, path := range paths {
		_, err := c.read(ctx, path)
		switch {
		case err == nil && i == 0:
			return true, true
		case err == nil: // the group is served, and the resource is no custom one that is registered
			return c.listed(ctx, plural, group, version)
		case !apierrors.IsNotFound(err):
			return false, false
		}
	}
	return false, true
}

// listed asks for the collection itself, in a group that is there: only a 404 says that it is not.
func (c *Client) listed(ctx context.Context, plural, group, version string) (registered, known bool) {
	stream := change.NewStream(change.Resource{Group: group, Version: version, Plural: plural}, "", "", "")
	_, err := c.listPage(ctx, stream, true, 1, "", func(*page, []byte) error { return nil })
	there := err == nil || errors.Is(err, errUnsupported)
	return there, there || apierrors.IsNotFound(err)
}

// Missing leaves of the unknown patterns those of which it is sure that nothing registers them.
func (c *Client) Missing(ctx context.Context, unknown []Pattern) []Pattern {
	var missing []Pattern
	for _, p := range unknown {
		if registered, known := c.registered(ctx, p.resource, p.group, p.version); known && registered {
			continue
		}
		missing = append(missing, p)
	}
	return missing
}
