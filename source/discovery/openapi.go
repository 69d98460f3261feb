package discovery

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// Find returns the resource that a name stands for: pods, deployments.apps, deployments.v1.apps. An unknown name is an
// *UnknownError.
func (s Served) Find(name string) (change.Resource, error) {
	p, err := ParsePattern(name)
	if err != nil || p.not || p.wild() {
		return change.Resource{}, &UnknownError{[]string{fmt.Sprintf("%q is no resource: write the plural and the group as "+
			"kubectl "+
			"does (pods, deployments.apps, deployments.v1.apps)", name)}}
	}
	if found, _ := Select([]Pattern{p}, s); len(found) == 1 {
		return found[0], nil
	}
	if s.failed[p.group] {
		return change.Resource{}, fmt.Errorf("find %s: the API server of the group %s does not answer now", name, p.group)
	}
	return change.Resource{}, &UnknownError{[]string{fmt.Sprintf("the API server serves no %q that can be listed and "+
		"watched; %s", name,
		didYouMean(p, s))}}
}

// OpenAPIPath returns the path of a resource's document in OpenAPIHashes.
func OpenAPIPath(r change.Resource) string {
	return strings.Trim(apiclient.VersionPath(r.Group, r.Version), "/")
}

// OpenAPI returns the OpenAPI v3 document of the resource's version of its group.
func (d *Server) OpenAPI(ctx context.Context, r change.Resource) ([]byte, error) {
	path := "/openapi/v3/" + OpenAPIPath(r)
	document, err := d.client.Read(ctx, path)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the schema of %s: the API server has no %s; Kubernetes 1.24 or later has it: %w", r.ID(),
			path,
			err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s from %s: %w", r.ID(), path, err)
	}
	return document, nil
}

// OpenAPIHashes returns a hash of each OpenAPI v3 document, by path: apis/apps/v1. A document that changes gets another hash.
func (d *Server) OpenAPIHashes(ctx context.Context) (map[string]string, error) {
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := d.client.ReadJSON(ctx, "/openapi/v3", "", &index); err != nil {
		return nil, fmt.Errorf("read the list of the schemas: %w", err)
	}
	hashes := map[string]string{}
	for path, document := range index.Paths {
		if link, err := url.Parse(document.ServerRelativeURL); err == nil && link.Query().Get("hash") != "" {
			hashes[strings.Trim(path, "/")] = link.Query().Get("hash")
		}
	}
	return hashes, nil
}
