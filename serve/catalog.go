package serve

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"kubecdc/change"
	"kubecdc/sinks"
)

// catalog is the set of resources that a cluster served at a moment, as far as its log knows: the log's resources, in the log's
// version.
type catalog []*served

type served struct {
	change.APIResource
	Columns []metav1.TableColumnDefinition `json:"columns,omitempty"`
	Fields  []string                       `json:"fields,omitempty"` // fields that can select objects
	Parts   []string                       `json:"parts,omitempty"`  // subresources: the Scale of an object, or the object itself

	paths  []string        // a custom resource's columns
	schema json.RawMessage // a custom resource's schema
	scale  *scalePaths     // a custom resource's, if it has a Scale
	others []*served       // a custom resource in other versions
	from   *served         // the log's resource, if this one has the objects by other names
}

// builtinJSON has the resources that kube-apiserver serves, with the columns of their tables and their selectable fields. This
// updates it: go test ./serve -run TestBuiltin -args -update
//
//go:embed builtin.json
var builtinJSON []byte

var builtin = sync.OnceValue(func() (all map[string]*served) {
	all = map[string]*served{}
	var list []*served
	if err := json.Unmarshal(builtinJSON, &list); err != nil {
		panic(err) // it is part of the program
	}
	for _, r := range list {
		all[r.ID()] = r
	}
	return all
})

const crds = "customresourcedefinitions.apiextensions.k8s.io"

// catalog returns the catalog of the request's moment.
func (s *Server) catalog(ctx context.Context, q *request) (c catalog, err error) {
	ids, err := s.log.Resources(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	byView := ids
	if slices.Contains(ids, crds) {
		byView = append([]string{crds}, ids...)
	}
	var v *view
	for _, id := range byView { // the log of one resource may begin later than the log of another
		if v, err = s.allOf(ctx, q, id); err != nil {
			return nil, err
		}
		if v != nil || !q.target.Happened.IsZero() {
			break
		}
	}
	described, err := s.views.described(ctx, v, q.timeOf(v))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r := cmp.Or(described[id], builtin()[id])
		if r == nil {
			if r, err = s.views.unnamed(ctx, id); err != nil {
				return nil, err
			}
		}
		if r != nil {
			c = append(c, r)
		}
	}
	c = c.withRenamed()
	slices.SortFunc(c, func(a, b *served) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version),
			cmp.Compare(a.Plural, b.Plural))
	})
	return c, nil
}

// allOf returns the view of all objects of a resource at the request's moment, or nil if the log of it begins later. Each list
// says so.
func (s *Server) allOf(ctx context.Context, q *request, resource string) (*view, error) {
	all := everything()
	all.target, all.pinned = q.target, q.pinned
	v, err := s.views.viewOf(ctx, all, resource)
	if apierrors.IsResourceExpired(err) {
		return nil, nil
	}
	return v, err
}

// described returns the resources of discovery at a moment, by id. A view of CRDs adds theirs.
func (all *views) described(ctx context.Context, v *view, moment time.Time) (resources map[string]*served, err error) {
	if v != nil {
		v.describing.Lock()
		defer v.describing.Unlock()
		if v.resources != nil {
			return v.resources, nil
		}
		defer func() { v.resources = resources }()
	}
	list, err := all.document(ctx, sinks.ResourcesPath, moment)
	if err != nil {
		return nil, err
	}
	var named []change.APIResource
	if list != nil {
		if err := json.Unmarshal(list, &named); err != nil {
			return nil, fmt.Errorf("the log's list of resources: %w", err)
		}
	}
	found := map[string]*served{}
	for _, r := range named {
		found[r.ID()] = describe(r)
	}
	if v == nil || v.Resource != crds {
		return found, nil
	}
	return found, all.custom(ctx, v, found)
}

// unnamed describes a resource by one of its objects. It returns nil if no object lives. A log in topics, and so its mirror, has
// no list of resources, and may lack the CRDs.
func (all *views) unnamed(ctx context.Context, id string) (*served, error) {
	if known, found := all.kinds.Load(id); found {
		return known.(*served), nil
	}
	r := change.APIResource{Resource: change.ResourceOf(change.StreamID(id))}
	err := all.log.Changes(ctx, sinks.Query{Resources: []string{id}, Each: sinks.Table}, func(l *sinks.Logged) error {
		var names metav1.TypeMeta
		if json.Unmarshal(l.After, &names) != nil || names.Kind == "" {
			return nil
		}
		r.Kind, r.Version, r.Namespaced = names.Kind, names.GroupVersionKind().Version, l.Namespace != ""
		return sinks.ErrEnough
	})
	if err != nil && !errors.Is(err, sinks.ErrEnough) || r.Kind == "" {
		return nil, err
	}
	r.Singular = strings.ToLower(r.Kind)
	d := describe(r)
	all.kinds.Store(id, d)
	return d, nil
}

// describe returns a resource if only its names are known. Unless it is built in, its tables have names and ages.
func describe(r change.APIResource) *served {
	if b := builtin()[r.ID()]; b != nil {
		return &served{APIResource: r, Columns: b.Columns, Fields: b.Fields, Parts: b.Parts}
	}
	d := &served{APIResource: r, Fields: []string{"metadata.name"}, paths: []string{".metadata.creationTimestamp"}}
	if r.Namespaced {
		d.Fields = append(d.Fields, "metadata.namespace")
	}
	d.Columns = []metav1.TableColumnDefinition{builtin()["configmaps"].Columns[0],
		{Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}}
	return d
}

func (c catalog) find(group, version, plural string) *served {
	i := slices.IndexFunc(c, func(r *served) bool { return r.Group == group && r.Version == version && r.Plural == plural })
	if i < 0 {
		return nil
	}
	return c[i]
}

// definition is the part of a CRD that a catalog needs.
type definition struct {
	Spec struct {
		Group, Scope string
		Names        struct {
			Plural, Singular, Kind string
			ShortNames, Categories []string
		}
		Conversion struct{ Strategy string }
		Versions   []struct {
			Name                     string
			Served                   bool
			AdditionalPrinterColumns []struct {
				Name, Type, Format, Description, JSONPath string
				Priority                                  int32
			}
			SelectableFields []struct{ JSONPath string }
			Schema           struct{ OpenAPIV3Schema json.RawMessage }
			Subresources     struct {
				Status *struct{}
				Scale  *scalePaths
			}
		}
	}
}

// customResource returns the resource of a CRD, in the version in which it was logged. If that version is not known, it is the
// version that an exporter reads: the first one in Kubernetes' order.
func customResource(crd []byte, logged map[string]*served) *served {
	var d definition
	if json.Unmarshal(crd, &d) != nil {
		return nil
	}
	n, versions := d.Spec.Names, d.Spec.Versions
	r := change.APIResource{Resource: change.Resource{Group: d.Spec.Group, Plural: n.Plural, Kind: n.Kind,
		Namespaced: d.Spec.Scope == "Namespaced"},
		Singular: n.Singular, Short: n.ShortNames, Categories: n.Categories}
	known, last := logged[r.ID()], -1
	for i, v := range versions {
		if v.Served && known != nil && v.Name == known.Version {
			last = i
			break
		}
		if v.Served && (last < 0 || version.CompareKubeAwareVersionStrings(v.Name, versions[last].Name) > 0) {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	s := d.version(last, r)
	for i, v := range versions {
		if i != last && v.Served && d.Spec.Conversion.Strategy != "Webhook" && s.schema != nil &&
			bytes.Equal(v.Schema.OpenAPIV3Schema, s.schema) {
			other := d.version(i, r)
			other.from, s.others = s, append(s.others, other)
		}
	}
	return s
}

// version returns a custom resource in a version.
func (d *definition) version(i int, r change.APIResource) *served {
	v := d.Spec.Versions[i]
	r.Version = v.Name
	s := describe(r)
	s.schema = v.Schema.OpenAPIV3Schema
	if len(v.AdditionalPrinterColumns) > 0 {
		s.Columns, s.paths = s.Columns[:1:1], nil
	}
	for _, column := range v.AdditionalPrinterColumns {
		s.Columns = append(s.Columns, metav1.TableColumnDefinition{Name: column.Name, Type: column.Type, Format: column.Format,
			Description: cmp.Or(column.Description,
				fmt.Sprintf("Custom resource definition column (in JSONPath format): %s", column.JSONPath)),
			Priority: column.Priority})
		s.paths = append(s.paths, column.JSONPath)
	}
	for _, field := range v.SelectableFields {
		s.Fields = append(s.Fields, strings.TrimPrefix(field.JSONPath, "."))
	}
	if v.Subresources.Status != nil {
		s.Parts = append(s.Parts, "status")
	}
	if s.scale = v.Subresources.Scale; s.scale != nil {
		s.Parts = append(s.Parts, "scale")
	}
	return s
}

// discover answers a discovery request.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, q *request, c catalog) error {
	found, err := q.discovery(c)
	if err == nil {
		own := func(r *served) bool { return r.Group == q.group && r.Version == q.version && builtin()[r.ID()] != nil }
		err = q.refused(r, q.path == "/api" || slices.ContainsFunc(c, own))
	}
	if err != nil {
		return err
	}
	return reply(w, q.media, http.StatusOK, found)
}

// discovery returns what a request for discovery asks for.
func (q *request) discovery(c catalog) (any, error) {
	groups := c.groups()
	switch {
	case q.path == "/api" && q.form == "":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{}}, nil
	case q.path == "/apis" && q.form == "":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{}}
		for _, g := range groups {
			if g.Name != "" {
				list.Groups = append(list.Groups, g)
			}
		}
		return list, nil
	case q.path == "/api" || q.path == "/apis":
		q.media.kind = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		return c.aggregated(groups, q.path == "/api"), nil
	case q.version == "":
		for _, g := range groups {
			if g.Name == q.group && q.group != "" {
				g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return &g, nil
			}
		}
		return nil, notFound("the log has no API group " + q.group)
	}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"},
		GroupVersion: (change.Resource{Group: q.group, Version: q.version}).APIVersion()}
	if q.group != "" {
		list.APIVersion = "v1" // the API server leaves it out for the core group
	}
	for _, r := range c {
		if r.Group == q.group && r.Version == q.version {
			list.APIResources = append(list.APIResources,
				metav1.APIResource{Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced,
					Kind: r.Kind, Verbs: verbs, ShortNames: r.Short, Categories: r.Categories})
			for _, name := range r.Parts {
				kind := r.kindOf(name)
				list.APIResources = append(list.APIResources,
					metav1.APIResource{Name: r.Plural + "/" + name, Namespaced: r.Namespaced,
						Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Verbs: verbs[:1]})
			}
		}
	}
	if list.APIResources == nil {
		return nil, notFound("the log has no resource of " + list.GroupVersion)
	}
	return list, nil
}

var verbs = []string{"get", "list", "watch"}

func (c catalog) groups() (groups []metav1.APIGroup) {
	for _, r := range c {
		v := metav1.GroupVersionForDiscovery{GroupVersion: r.APIVersion(), Version: r.Version}
		if n := len(groups); n == 0 || groups[n-1].Name != r.Group {
			groups = append(groups, metav1.APIGroup{Name: r.Group, PreferredVersion: v})
		}
		if g := &groups[len(groups)-1]; !slices.Contains(g.Versions, v) {
			g.Versions = append(g.Versions, v)
		}
	}
	return groups
}

// aggregated returns all groups and resources at once.
func (c catalog) aggregated(groups []metav1.APIGroup, core bool) *apidiscovery.APIGroupDiscoveryList {
	list := &apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList",
		APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscovery.APIGroupDiscovery{}}
	for _, g := range groups {
		if core != (g.Name == "") {
			continue
		}
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, v := range g.Versions {
			discovery := apidiscovery.APIVersionDiscovery{Version: v.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
			for _, r := range c {
				if r.Group != g.Name || r.Version != v.Version {
					continue
				}
				scope := apidiscovery.ScopeCluster
				if r.Namespaced {
					scope = apidiscovery.ScopeNamespace
				}
				one := apidiscovery.APIResourceDiscovery{Resource: r.Plural, SingularResource: r.Singular, Scope: scope,
					Verbs:      verbs,
					ShortNames: r.Short, Categories: r.Categories,
					ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}}
				for _, name := range r.Parts {
					one.Subresources = append(one.Subresources,
						apidiscovery.APISubresourceDiscovery{Subresource: name, ResponseKind: r.kindOf(name), Verbs: verbs[:1]})
				}
				discovery.Resources = append(discovery.Resources, one)
			}
			item.Versions = append(item.Versions, discovery)
		}
		list.Items = append(list.Items, item)
	}
	return list
}

// kindOf returns the kind of a subresource. The group is left out if it is the resource's own.
func (r *served) kindOf(part string) *metav1.GroupVersionKind {
	if part == "scale" {
		return &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	}
	return &metav1.GroupVersionKind{Kind: r.Kind}
}
