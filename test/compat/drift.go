package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/test/servers"
)

// Members whose types change: the cluster validates nothing of a widget, and statements are printed with the types that it had once.

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "compat.example.com", Version: "v1", Resource: "widgets"}
)

// widgetCRD defines widgets whose spec has a schema.
func widgetCRD(spec object) object {
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": widgets.GroupResource().String()},
		"spec": object{"group": widgets.Group, "scope": "Namespaced", "names": object{"plural": widgets.Resource, "kind": "Widget"},
			"versions": []any{object{"name": widgets.Version, "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": spec}}}}}}}
}

// former are the types that the statements have.
var former = widgetCRD(object{"type": "object", "properties": object{
	"size": object{"type": "integer"}, "color": object{"type": "string"}}})

// serveWidgets has the API server serve widgets, whatever they hold.
func (s *stack) serveWidgets(ctx context.Context) error {
	anything := widgetCRD(object{"type": "object", "x-kubernetes-preserve-unknown-fields": true})
	_, err := s.cluster.Resource(crds).Create(ctx, &unstructured.Unstructured{Object: anything}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return servers.Until(ctx, "the widgets to be served", func() (bool, error) {
		_, err := s.cluster.Resource(widgets).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// drift creates and changes the widgets.
func (s *stack) drift(ctx context.Context) error {
	for name, sizes := range drifting {
		if err := s.create(ctx, widgets, widget(name, object{"size": 1, "color": "red"})); err != nil {
			return err
		}
		for _, size := range sizes {
			if err := s.patch(ctx, widgets, name, object{"spec": object{"size": size}}); err != nil {
				return err
			}
		}
	}
	if err := s.create(ctx, widgets, widget("odd", object{"size": 2, "color": 7})); err != nil {
		return err
	}
	return s.delete(ctx, widgets, "gone")
}

// drifting are the widgets whose size becomes another than 1, by their names.
var drifting = map[string][]any{"kept": nil, "text": {"large"}, "object": {object{"cm": 3}}, "list": {[]any{2, 3}}, "boolean": {true},
	"back": {"large", 4}, "gone": {"large", object{"cm": 3}}}

func widget(name string, spec object) object {
	return object{"apiVersion": widgets.GroupVersion().String(), "kind": "Widget", "metadata": object{"name": name}, "spec": spec}
}

// drifted are the rows of the widgets: null where a value is of another type, and all other values.
func drifted(objects) (rows []row) {
	for name, spec := range map[string]object{"kept": {"size": 1, "color": "red"}, "text": {"color": "red"}, "object": {"color": "red"},
		"list": {"color": "red"}, "boolean": {"color": "red"}, "back": {"size": 4, "color": "red"}, "odd": {"size": 2, "color": "7"}} {
		rows = append(rows, object{"cluster": clusterName, "namespace": namespace, "name": name, "spec": spec})
	}
	return rows
}

// flinkDrifted runs the statements that the exporter prints for the former types.
func flinkDrifted(dialect, table string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		text, err := (&unstructured.Unstructured{Object: former}).MarshalJSON()
		if err != nil {
			return nil, err
		}
		file := filepath.Join(r.dir, "former.json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		statements, err := r.schema(ctx, dialect, widgets.GroupResource().String(), "--columns", "spec", "--crds", file)
		if err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(widgets.GroupResource().String(), ".", "_")
		return r.flink(ctx, statements+";\n", name+table, "SELECT * FROM "+name, flinkLibs, flinkProgram)
	}
}
