package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
)

// CRDs are the CustomResourceDefinitions of a file.
type CRDs []customResource

// customResource is a version of a custom resource.
type customResource struct {
	change.Resource
	schema *node // may be nil
}

// manifest is a CustomResourceDefinition (apiextensions.k8s.io/v1), or a List of them.
type manifest struct {
	Kind string
	Spec struct {
		Group    string
		Names    struct{ Plural, Kind string }
		Scope    string
		Versions []struct {
			Name   string
			Served bool
			Schema struct{ OpenAPIV3Schema *node }
		}
	}
	Items []manifest
}

// ParseCRDs reads a file of CRDs: YAML or JSON, one or more documents, or a List, as kubectl get crd -o yaml prints it. It skips
// objects of other kinds.
func ParseCRDs(file []byte) (CRDs, error) {
	var all CRDs
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	for n := 1; ; n++ {
		var m manifest
		err := documents.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d is neither YAML nor JSON of a CustomResourceDefinition: %w", n, err)
		}
		for _, m := range append(m.Items, m) {
			all = append(all, m.resources()...)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no CustomResourceDefinition of apiextensions.k8s.io/v1 with a served version; " +
			"kubectl get crd -o yaml prints the CRDs of a cluster")
	}
	return all, nil
}

func (m *manifest) resources() (all []customResource) {
	if m.Kind != "CustomResourceDefinition" {
		return nil
	}
	for _, v := range m.Spec.Versions {
		if v.Served {
			r := change.Resource{Group: m.Spec.Group, Version: v.Name, Plural: m.Spec.Names.Plural, Kind: m.Spec.Names.Kind,
				Namespaced: m.Spec.Scope == "Namespaced"}
			all = append(all, customResource{r, v.Schema.OpenAPIV3Schema})
		}
	}
	// an API server prefers the first version
	slices.SortStableFunc(all, func(a, b customResource) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	return all
}

// Find returns the resource of this name (orders, orders.example.com, orders.v1.example.com) and the type of its objects.
func (all CRDs) Find(name string) (change.Resource, *Type, error) {
	var ids, names []string
	for _, c := range all {
		if name == c.Plural || name == c.ID() || name == c.Plural+"."+c.Version+"."+c.Group {
			t := scalar(JSON)
			if c.schema != nil {
				t = resolver{}.typeOf(c.schema)
			}
			return c.Resource, rootOf(t), nil
		}
		if !slices.Contains(ids, c.ID()) {
			ids, names = append(ids, c.ID()), append(names, c.ID(), c.Plural)
		}
	}
	return change.Resource{}, nil, fault.Usagef("the file of CRDs has no resource %q; %sit has %s", name,
		suggest.DidYouMean(name, names), strings.Join(ids, ", "))
}
