package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"

	"kubecdc/query"
)

// row is the object of a table's row.
type row struct {
	object any
	now    time.Time // the moment, so that ages are as they were then
}

// cell computes one cell of a row.
type cell func(r *row) any

// table returns a table of objects, which kubectl get prints.
func (s *Server) table(q *request, resource *served, v *view, objects []*query.Object, meta metav1.ListMeta) *metav1.Table {
	return &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta, ColumnDefinitions: resource.Columns,
		Rows: s.rows(q, resource, v, objects)}
}

func (s *Server) rows(q *request, resource *served, v *view, objects []*query.Object) []metav1.TableRow {
	if len(objects) == 0 && tables()[resource.ID()] != nil && resource.Columns[1].Name == "Created At" {
		return nil // like the API server, for built-in types without special columns
	}
	cells, now := resource.cells(), s.clock(v)
	rows, decodedRows := make([]metav1.TableRow, 0, len(objects)), make([]*row, 0, len(objects))
	for _, o := range objects {
		r := &row{object: decoded(o.Body), now: now}
		out := metav1.TableRow{Object: included(q.include, resource, o)}
		if resource.Columns[0].Name == "Name" {
			out.Cells = []any{o.Name}
		}
		for _, c := range cells {
			out.Cells = append(out.Cells, c(r))
		}
		if resource.ID() == "pods" {
			out.Conditions = podConditions[r.text("status.phase")]
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
	"Succeeded": {{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "The pod has completed successfully."}},
	"Failed":    {{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Failed", Message: "The pod failed."}},
}

// cells returns the cells of a row, without the name.
func (r *served) cells() []cell {
	if known := tables()[r.ID()]; known != nil {
		return known
	}
	var cells []cell
	for i, path := range r.paths {
		cells = append(cells, customCell(r.Columns[1+i].Type, path))
	}
	return cells
}

// customCell returns the cell of a custom resource's column. It is nil for a value of another type than the column's.
func customCell(kind, path string) cell {
	p := jsonpath.New(path).AllowMissingKeys(true)
	if p.Parse("{"+path+"}") != nil {
		return func(*row) any { return nil }
	}
	return func(r *row) any {
		found, err := p.FindResults(r.object)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			return nil
		}
		value := found[0][0].Interface()
		number, isNumber := value.(json.Number)
		switch kind {
		case "integer":
			if n, err := number.Int64(); isNumber && err == nil {
				return n
			} else if f, err := number.Float64(); isNumber && err == nil {
				return int64(f)
			}
		case "number":
			if f, err := number.Float64(); isNumber && err == nil {
				return f
			}
		case "boolean":
			if b, isBool := value.(bool); isBool {
				return b
			}
		case "date":
			if text, isText := value.(string); isText {
				return r.since(text, "<invalid>")
			}
		case "string":
			var text bytes.Buffer
			if p.PrintResults(&text, found[0][:1]) == nil {
				return text.String()
			}
		}
		return nil
	}
}

func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// memberAt returns the first member of an object at a path such as spec.nodeName, or nil if there is none.
func memberAt(object any, path string) any { return append(valuesAt(object, path), nil)[0] }

func (r *row) member(path string) any { return memberAt(r.object, path) }

// has reports whether there is a member at a path.
func (r *row) has(path string) bool { return r.member(path) != nil }

// text returns a member as text, or "" if there is none.
func (r *row) text(path string) string { return textOf(r.member(path)) }

func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func (r *row) number(path string) int64 { return numberOf(r.member(path)) }

func numberOf(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

func (r *row) list(path string) []any { return listOf(r.member(path)) }

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func (r *row) texts(path string) (all []string) {
	for _, v := range valuesAt(r.object, path) {
		all = append(all, textOf(v))
	}
	return all
}

// since returns the time from text to the moment. It returns wrong if text is not a time.
func (r *row) since(text, wrong string) string {
	if text == "" {
		return "<unknown>"
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return wrong
	}
	return duration.HumanDuration(r.now.Sub(t))
}
