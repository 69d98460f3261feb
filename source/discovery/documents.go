package discovery

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/source/apiclient"
)

// This file reads an API server's discovery documents. A server of 1.27 or later has two for everything (KEP-3352), an older one
// has one for each version of each group.
//
// client-go's discovery client reads them too, but it links the types of every built-in resource: half of the program's size
// and 20 MB of memory, for types that an exporter of raw objects does not use.

// acceptDocuments asks for the aggregated form; v2beta1, before 1.30, has the same fields. A server that knows neither answers
// with plain JSON.
const acceptDocuments = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// apiDocument is any of the three documents that /api and /apis answer with.
type apiDocument struct {
	Items    []apidiscovery.APIGroupDiscovery // APIGroupDiscoveryList
	Groups   []metav1.APIGroup                // APIGroupList, of /apis
	Versions []string                         // APIVersions, of /api: of the group without a name
}

// documents reads all documents.
func (d *Server) documents(ctx context.Context) (Served, error) {
	s := Served{versions: map[string]string{}, byVersion: map[string]bool{}, short: map[string][]string{}, failed: map[string]bool{}}
	for _, path := range []string{"/api", "/apis"} {
		document := apiDocument{}
		err := d.client.ReadJSON(ctx, path, acceptDocuments, &document)
		if path == "/api" && apierrors.IsNotFound(err) {
			continue // a server of aggregated resources only
		}
		if err != nil {
			return s, err
		}
		s.addAggregated(document.Items)
		if err := d.addEach(ctx, &s, document.groups()); err != nil {
			return s, err
		}
	}
	return s, nil
}

// groups returns the groups that the document has without their resources.
func (d *apiDocument) groups() []metav1.APIGroup {
	core := metav1.APIGroup{}
	for _, v := range d.Versions {
		core.Versions = append(core.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v, Version: v})
	}
	if len(core.Versions) == 0 {
		return d.Groups
	}
	core.PreferredVersion = core.Versions[0]
	return []metav1.APIGroup{core}
}

// addAggregated adds the groups of the aggregated form. The preferred version comes first. If the API server of a version is
// down, the version is marked as stale.
func (s *Served) addAggregated(groups []apidiscovery.APIGroupDiscovery) {
	for _, g := range groups {
		for _, v := range g.Versions {
			if v.Freshness == apidiscovery.DiscoveryFreshnessStale {
				s.failed[g.Name] = true
				continue
			}
			if s.versions[g.Name] == "" {
				s.versions[g.Name] = v.Version
			}
			for _, r := range v.Resources {
				if r.ResponseKind != nil {
					s.add(schema.GroupVersion{Group: g.Name, Version: v.Version}, metav1.APIResource{Name: r.Resource,
						Kind: r.ResponseKind.Kind, Namespaced: r.Scope == apidiscovery.ScopeNamespace, Verbs: r.Verbs,
						ShortNames: r.ShortNames})
				}
			}
		}
	}
}

// documentsAtOnce bounds the concurrent requests to a server without the aggregated form.
const documentsAtOnce = 8

// addEach reads the document of each version of the groups. A document that can't be read marks its group as failed and is no
// error.
func (d *Server) addEach(ctx context.Context, s *Served, groups []metav1.APIGroup) error {
	var mu sync.Mutex
	var requests errgroup.Group
	requests.SetLimit(documentsAtOnce)
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, g := range groups {
		s.versions[g.Name] = g.PreferredVersion.Version
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			requests.Go(func() error {
				list := &metav1.APIResourceList{}
				err := d.client.ReadJSON(ctx, apiclient.VersionPath(gv.Group, gv.Version), "", list)
				mu.Lock()
				defer mu.Unlock()
				lists[gv] = list
				s.failed[gv.Group] = s.failed[gv.Group] || err != nil
				return nil
			})
		}
	}
	_ = requests.Wait()
	for _, g := range groups { // in the server's order
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			for _, r := range lists[gv].APIResources {
				s.add(gv, r)
			}
		}
	}
	return ctx.Err()
}
