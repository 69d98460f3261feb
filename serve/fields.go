package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"kubecdc/query"
	"kubecdc/sinks"
)

// selectableFields are those that kube-apiserver selects by, besides name and namespace, with the path in the object where that is another
// one.
var selectableFields = map[string][]string{
	"pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase",
		"status.podIP", "status.nominatedNodeName"},
	"nodes":      {"spec.unschedulable"},
	"namespaces": {"status.phase"},
	"secrets":    {"type"},
	"services":   {"spec.clusterIP", "spec.type"},
	"events": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source=source.component", "type"},
	"events.events.k8s.io": {"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
		"regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type"},
	"replicasets.apps":       {"status.replicas"},
	"replicationcontrollers": {"status.replicas"},
	"jobs.batch":             {"status.successful=status.succeeded"},
	"certificatesigningrequests.certificates.k8s.io": {"spec.signerName"},
}

// numbers are fields whose absence is a zero, and switches those whose absence is false.
var (
	numbers  = []string{"status.replicas", "status.successful"}
	switches = []string{"spec.unschedulable", "spec.hostNetwork"}
)

// matcher decides by the selectors; nil: there are none.
func (q *request) matcher(of *served) (func(o *query.Object) bool, error) {
	if q.labels.Empty() && q.fields.Empty() {
		return nil, nil
	}
	paths := map[string]string{"metadata.name": "metadata.name"}
	if of.Namespaced {
		paths["metadata.namespace"] = "metadata.namespace"
	}
	for _, field := range append(selectableFields[of.ID()], of.selectable...) {
		label, path, found := strings.Cut(strings.TrimPrefix(field, "."), "=")
		if !found {
			path = label
		}
		paths[label] = path
	}
	for _, r := range q.fields.Requirements() {
		if paths[r.Field] == "" {
			return nil, apierrors.NewBadRequest("Unable to find \"" + of.APIVersion() + ", Resource=" + of.Plural +
				"\" that match label selector \"\", field selector \"" + q.fields.String() + "\": field label not supported: " + r.Field)
		}
	}
	return func(o *query.Object) bool {
		if !q.labels.Matches(sinks.LabelsOf(o.Body)) {
			return false
		}
		if q.fields.Empty() {
			return true
		}
		body, set := decoded(o.Body), fields.Set{}
		for _, r := range q.fields.Requirements() {
			set[r.Field] = fieldText(r.Field, at(body, paths[r.Field]))
		}
		return q.fields.Matches(set)
	}, nil
}

func fieldText(field string, value any) string {
	switch {
	case value != nil:
		return fmt.Sprint(value)
	case slices.Contains(numbers, field):
		return "0"
	case slices.Contains(switches, field):
		return "false"
	}
	return ""
}

func decoded(body []byte) (object map[string]any) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	_ = d.Decode(&object) // the log has what the API server has sent
	return object
}

// at is the member of an object at a path such as spec.nodeName; nil: there is none.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}
