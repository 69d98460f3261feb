package discovery

import (
	"context"
	"fmt"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
)

// This file reads an API server's discovery documents in their aggregated form, two for everything (KEP-3352).
//
// client-go's discovery client reads them too, but it links the types of every built-in resource: half of the program's size
// and 20 MB of memory, for types that an exporter of raw objects does not use.

// acceptDocuments: v2beta1, before 1.30, has the same fields.
const acceptDocuments = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

func (d *Server) documents(ctx context.Context) (Served, error) {
	s := Served{reads: map[string]string{}, named: map[string]change.APIResource{}, failed: map[string]bool{}}
	for _, path := range []string{"/api", "/apis"} {
		var document apidiscovery.APIGroupDiscoveryList
		err := d.client.ReadJSON(ctx, path, acceptDocuments, &document)
		if path == "/api" && apierrors.IsNotFound(err) {
			continue // a server of aggregated resources only
		}
		if err == nil && document.Kind != "APIGroupDiscoveryList" {
			err = fmt.Errorf("it answers GET %s with a document of kind %q: kubecdc needs Kubernetes 1.27 or later", path,
				document.Kind)
		}
		if err != nil {
			return s, err
		}
		s.addGroups(document.Items)
	}
	return s, nil
}

// addGroups adds what can be listed and watched. The preferred version comes first. If the API server of a version is down, the
// version is marked as stale.
func (s *Served) addGroups(groups []apidiscovery.APIGroupDiscovery) {
	for _, g := range groups {
		for _, v := range g.Versions {
			if v.Freshness == apidiscovery.DiscoveryFreshnessStale {
				s.failed[g.Name] = true
				continue
			}
			for _, r := range v.Resources {
				if r.ResponseKind != nil && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
					s.add(change.APIResource{Resource: change.Resource{Group: g.Name, Version: v.Version, Plural: r.Resource,
						Kind:       r.ResponseKind.Kind,
						Namespaced: r.Scope == apidiscovery.ScopeNamespace}, Singular: r.SingularResource, Short: r.ShortNames,
						Categories: r.Categories})
				}
			}
		}
	}
}
