package compat

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubecdc/test/e2e"
)

// Members whose types change: the cluster validates nothing of a widget, and statements are printed with the types that it had once.

var widgets = e2e.Widgets.GVR

// former are the types that the statements have.
var former = e2e.CRD(e2e.Widgets, object{"type": "object", "properties": object{"spec": object{"type": "object", "properties": object{
	"size": object{"type": "integer"}, "color": object{"type": "string"}}}}})

// drift creates and changes the widgets.
func (s *stack) drift(t *testing.T) {
	api, ctx := s.cluster.Resource(widgets).Namespace("default"), t.Context()
	create := func(name string, spec object) {
		_, err := api.Create(ctx, &unstructured.Unstructured{Object: object{"apiVersion": widgets.GroupVersion().String(), "kind": "Widget",
			"metadata": object{"name": name}, "spec": spec}}, metav1.CreateOptions{})
		must(t, err)
	}
	for name, sizes := range drifting {
		create(name, object{"size": 1, "color": "red"})
		for _, size := range sizes {
			patch, err := json.Marshal(object{"spec": object{"size": size}})
			must(t, err)
			_, err = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			must(t, err)
		}
	}
	create("odd", object{"size": 2, "color": 7})
	must(t, api.Delete(ctx, "gone", metav1.DeleteOptions{}))
}

// drifting are the widgets whose size becomes another than 1, by their names.
var drifting = map[string][]any{"kept": nil, "text": {"large"}, "object": {object{"cm": 3}}, "list": {[]any{2, 3}}, "boolean": {true},
	"back": {"large", 4}, "gone": {"large", object{"cm": 3}}}

// drifted are the rows of the widgets: null where a value is of another type, and all other values.
func drifted(objects) (rows []row) {
	for name, spec := range map[string]object{"kept": {"size": 1, "color": "red"}, "text": {"color": "red"}, "object": {"color": "red"},
		"list": {"color": "red"}, "boolean": {"color": "red"}, "back": {"size": 4, "color": "red"}, "odd": {"size": 2, "color": "7"}} {
		rows = append(rows, object{"cluster": clusterName, "namespace": "default", "name": name, "spec": spec})
	}
	return rows
}

// flinkDrifted runs the statements that the exporter prints for the former types.
func flinkDrifted(dialect, table string) func(context.Context, reading) ([]row, error) {
	return func(ctx context.Context, r reading) ([]row, error) {
		text, err := former.MarshalJSON()
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
