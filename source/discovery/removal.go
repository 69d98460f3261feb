package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// A resource that discovery does not show may not be removed. An API server that has just started does not show the custom
// resources for a moment, and answers 404 to requests for them. If that counted as a removal, the deletion of live objects would
// be recorded. So what registers the resource is read by consistent reads of etcd: its CRD, and the API services of its group.
// While one of them can't be read, the resource counts as not removed.
//
// Only the deletion of a CRD deletes objects. The objects of a built-in resource that is not served still exist. Another API
// server of the cluster may serve it, for example during an upgrade, or with another --runtime-config. The objects of an
// aggregated resource exist too, in the store of its own server, with or without the APIService. So these resources are never
// removed, and their streams wait (origin.go).

// registration says whether a resource is registered in the API server.
type registration int

const (
	unclear    registration = iota // not known: the error says why, and which right is missing
	registered                     // it has a CRD, or can be listed
	removed                        // it had a CRD, which was deleted
	outlived                       // it is not served, and its objects outlive that: the error says why
)

// UnsureError says why it is not known whether a resource was removed.
type UnsureError struct {
	Resource string
	Right    string // that is missing, as "get customresourcedefinitions.apiextensions.k8s.io"; empty: none
	Lasting  bool   // nothing but its being served again ends the doubt
	Err      error
}

func (e *UnsureError) Error() string {
	if e.Right != "" {
		return fmt.Sprintf("the API server does not show %s; whether it was removed is not known without the right to %s: "+
			"grant it "+
			"(exporter rbac prints the roles); until then no deletion is recorded", e.Resource, e.Right)
	}
	return fmt.Sprintf("the API server does not show %s, and whether it was removed is not known: %v", e.Resource, e.Err)
}

func (e *UnsureError) Unwrap() error { return e.Err }

// errNotShown reports that the resource is registered, and not shown: the API server will show it soon, or has a problem with it.
func errNotShown(resource string) error {
	return &UnsureError{Resource: resource, Err: errors.New("it is registered")}
}

func unsure(resource, right string, err error) (registration, error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		right = ""
	}
	return unclear, &UnsureError{Resource: resource, Right: right, Err: err}
}

// RemovalRights are the rights that are needed to find out whether a resource was removed.
var RemovalRights = []struct {
	Verb     string
	Resource change.Resource
}{{"get", crds}, {"list", apiServices}}

// registration reads what registers the resource, in any version.
func (d *Server) registration(ctx context.Context, r change.Resource) (registration, error) {
	id := r.ID()
	name := r.Plural + "." + r.Group
	crd := apiclient.CollectionPath(change.NewStream(crds, "", "", ""), "") + "/" + name
	_, err := d.client.Read(ctx, crd)
	switch {
	case err == nil:
		return registered, nil
	case !apierrors.IsNotFound(err):
		return unsure(id, "get "+crds.ID(), err)
	case !names(err, name):
		return unsure(id, "", fmt.Errorf("GET %s: no API server that has CRDs gives this answer: %w", crd, err))
	}
	groups, err := d.servicesByGroup(ctx)
	if err != nil {
		return unsure(id, "list "+apiServices.ID(), err)
	}
	found, err := d.listed(ctx, r, groups[r.Group].versions)
	if found != removed {
		return found, err
	}
	if outlives := d.originOf(r.Group, groups).outlives(); outlives != nil {
		return outlived, &UnsureError{Resource: id, Lasting: true, Err: outlives}
	}
	return removed, nil
}

// names reports whether a 404 names the object. A 404 of a proxy, or of a server that does not know the path yet, does not.
func names(err error, name string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == name
}

// listed lists the collection itself, in a group that is served. The resource has no CRD, so it is built in, or belongs to an
// aggregated server. Only a 404 in each version shows that it does not exist. A user who may list only some namespaces gets a 403
// elsewhere.
func (d *Server) listed(ctx context.Context, r change.Resource, versions []string) (registration, error) {
	namespace := ""
	if r.Namespaced && len(d.Namespaces) > 0 {
		namespace = d.Namespaces[0]
	}
	for _, version := range versions {
		r.Version = version
		_, err := d.client.First(ctx, change.NewStream(r, namespace, "", ""))
		switch {
		case err == nil || errors.Is(err, apiclient.ErrUnsupported):
			return registered, nil
		case !apierrors.IsNotFound(err):
			return unsure(r.ID(), "list "+r.ID(), err)
		}
	}
	return removed, nil
}

// Missing returns the unknown patterns whose resource is not known to be registered.
func (d *Server) Missing(ctx context.Context, unknown []Pattern) []Pattern {
	return slices.DeleteFunc(slices.Clone(unknown), func(p Pattern) bool {
		found, _ := d.registration(ctx, change.Resource{Group: p.group, Plural: p.resource})
		return found == registered
	})
}

// removals keeps resources in the selection until they are known to be removed.
type removals struct {
	discovery *Server
	selected  map[string]change.Resource
}

// keep adds to the selection the resources that were selected before and are not known to be removed. doubts maps the id of each
// such resource to the reason why it is still selected.
func (r *removals) keep(ctx context.Context, selected []change.Resource) (all []change.Resource, doubts map[string]error) {
	doubts = map[string]error{}
	shown := map[string]bool{}
	for _, resource := range selected {
		shown[resource.ID()] = true
		r.selected[resource.ID()] = resource
	}
	for id, resource := range r.selected {
		if shown[id] {
			continue
		}
		found, err := r.discovery.registration(ctx, resource)
		if found == removed {
			delete(r.selected, id)
			continue
		}
		if found == registered {
			err = errNotShown(id)
		}
		selected, doubts[id] = append(selected, resource), err
	}
	return selected, doubts
}

// passing reports whether one of the doubts may end soon. A missing right does not end soon, and some doubts say that they last.
func passing(doubts map[string]error) bool {
	for _, err := range doubts {
		if u, ok := errors.AsType[*UnsureError](err); !ok || u.Right == "" && !u.Lasting {
			return true
		}
	}
	return false
}
