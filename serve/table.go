package serve

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubecdc/internal/cells"
	"kubecdc/query"
)

// table returns a table of objects, which kubectl get prints.
func (s *Server) table(q *request, resource *served, v *view, objects []*query.Object, meta metav1.ListMeta) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta,
		Rows: s.rows(q, resource, v, objects)}
	if !q.hasColumns {
		t.ColumnDefinitions = resource.Columns
	}
	q.hasColumns = q.Watch
	return t
}

// needsAllRows reports whether a table depends on all its objects.
func needsAllRows(r *served) bool { return defaultAnnotations[r.ID()] != nil || r.ID() == flowSchemas }

func (s *Server) rows(q *request, resource *served, v *view, objects []*query.Object) []metav1.TableRow {
	if len(objects) == 0 && cells.BuiltIn()[resource.ID()] != nil && resource.Columns[1].Name == "Created At" {
		return nil // like the API server, for built-in types without special columns
	}
	computed, now := resource.cells(), s.clock(v)
	rows, decodedRows := make([]metav1.TableRow, 0, len(objects)), make([]*cells.Row, 0, len(objects))
	for _, o := range objects {
		r := &cells.Row{Object: cells.Decoded(o.Body), Now: now}
		out := metav1.TableRow{Object: included(q.include, resource, o)}
		if resource.Columns[0].Name == "Name" {
			out.Cells = []any{o.Name}
		}
		for _, c := range computed {
			out.Cells = append(out.Cells, c(r))
		}
		if resource.ID() == "pods" {
			out.Conditions = podConditions[r.Text("status.phase")]
		}
		rows, decodedRows = append(rows, out), append(decodedRows, r)
	}
	if defaultAnnotations[resource.ID()] != nil {
		markDefault(resource, q.name == "" && !q.Watch, decodedRows, rows)
	}
	if resource.ID() == flowSchemas { // in the order in which the API server uses them
		slices.SortStableFunc(rows, func(a, b metav1.TableRow) int { return cmp.Compare(a.Cells[2].(int64), b.Cells[2].(int64)) })
	}
	return rows
}

const flowSchemas = "flowschemas.flowcontrol.apiserver.k8s.io"

func included(what string, resource *served, o *query.Object) runtime.RawExtension {
	switch what {
	case "None":
		return runtime.RawExtension{}
	case "Object":
		return runtime.RawExtension{Raw: o.Body}
	}
	return runtime.RawExtension{Object: partial(resource, o)}
}

var podConditions = map[string][]metav1.TableRowCondition{
	"Succeeded": {{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Succeeded",
		Message: "The pod has completed successfully."}},
	"Failed": {{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Failed", Message: "The pod failed."}},
}

// cells returns the cells of a row, without the name.
func (r *served) cells() (all []cells.Cell) {
	if known := cells.BuiltIn()[r.ID()]; known != nil {
		for _, c := range known {
			all = append(all, c.Cell)
		}
		return all
	}
	for i, path := range r.paths {
		all = append(all, cells.Custom(r.Columns[1+i].Type, path))
	}
	return all
}
