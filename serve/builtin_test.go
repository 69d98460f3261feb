package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/servers"
)

var update = flag.Bool("update", false, "write builtin.json, and the table of docs/serve.md")

func TestMain(m *testing.M) { servers.Main(m) }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// The resources, the columns of their tables, and their selectable fields are equal to kube-apiserver's.
func TestBuiltinResourcesAreTheAPIServers(t *testing.T) {
	k := servers.Kube(t)
	client := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(k.Config))
	g := (&past{t: t, raw: client.RESTClient()}).generator(t, 0)
	var all []*served
	for _, group := range must[[]*metav1.APIResourceList](t)(client.ServerPreferredResources()) {
		gv := must[schema.GroupVersion](t)(schema.ParseGroupVersion(group.GroupVersion))
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "watch") {
				continue
			}
			one := &served{APIResource: change.APIResource{Resource: change.Resource{Group: gv.Group, Version: gv.Version, Plural: r.Name, Kind: r.Kind,
				Namespaced: r.Namespaced}, Singular: r.SingularName, Short: r.ShortNames, Categories: r.Categories}}
			one.Columns, one.Fields = tableOf(t, client.RESTClient(), one).ColumnDefinitions, g.fieldsOf(one)
			all = append(all, one)
		}
	}
	partsOf := partsOf(t, client)
	for _, r := range all {
		r.Parts = partsOf[r.ID()]
	}
	slices.SortFunc(all, func(a, b *served) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Plural, b.Plural)) })
	got := must[[]byte](t)(json.MarshalIndent(all, "", " "))
	if *update {
		ok(t, os.WriteFile("builtin.json", append(got, '\n'), 0o644))
	}
	if !bytes.Equal(bytes.TrimSpace(builtinJSON), got) && !*update {
		t.Error("builtin.json is not what kube-apiserver serves: go test ./serve -run TestBuiltin -args -update")
	}
}

// partsOf returns the subresources that a log can tell, by the resource's id.
func partsOf(t *testing.T, client *discovery.DiscoveryClient) map[string][]string {
	all := map[string][]string{}
	_, groups, err := client.ServerGroupsAndResources()
	ok(t, err)
	for _, group := range groups {
		gv := must[schema.GroupVersion](t)(schema.ParseGroupVersion(group.GroupVersion))
		for _, r := range group.APIResources {
			name, part, _ := strings.Cut(r.Name, "/")
			id := schema.GroupResource{Group: gv.Group, Resource: name}.String()
			if slices.Contains(parts, part) && slices.Contains(r.Verbs, "get") && !slices.Contains(all[id], part) {
				all[id] = append(all[id], part)
			}
		}
	}
	return all
}

// tableOf returns an API server's table of a resource.
func tableOf(t testing.TB, client rest.Interface, r *served) *metav1.Table {
	path := "/api/v1/"
	if r.Group != "" {
		path = "/apis/" + r.APIVersion() + "/"
	}
	table := &metav1.Table{}
	raw := must[[]byte](t)(client.Get().AbsPath(path+r.Plural).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context()))
	ok(t, json.Unmarshal(raw, table))
	return table
}

// fieldsOf returns the fields in a resource's schema, and some others, by which an API server selects objects.
func (g *generator) fieldsOf(resource *served) (selectable []string) {
	gv, root := g.root(resource)
	candidates := []string{"metadata.name", "metadata.namespace", "source", "reportingComponent", "reportingController", "status.successful"}
	for member, s := range root.Properties {
		candidates = append(candidates, member)
		if len(s.AllOf) == 1 && member != "metadata" {
			_, name, _ := strings.Cut(s.AllOf[0].Ref, "#/components/schemas/")
			for inner := range g.schemas[gv][name].Properties {
				candidates = append(candidates, member+"."+inner)
			}
		}
	}
	slices.Sort(candidates)
	for _, field := range slices.Compact(candidates) {
		if g.past.real(pathOf(resource, "")+"?limit=1&fieldSelector="+field+"%3Dtrue", asObjects).code == http.StatusOK {
			selectable = append(selectable, field)
		}
	}
	return selectable
}
