package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"kubecdc/query"
	"kubecdc/sinks"
)

// fieldPaths are the paths in the object for fields with another name.
var fieldPaths = map[string]string{"source": "source.component", "status.successful": "status.succeeded"}

// numbers are fields that count as 0 if they are absent, and switches are fields that then count as false.
var (
	numbers  = []string{"status.replicas", "status.successful"}
	switches = []string{"spec.unschedulable", "spec.hostNetwork"}
)

// matcher returns a function that reports whether the selectors select an object, or nil without selectors.
func (q *request) matcher(resource *served) (func(o *query.Object) bool, error) {
	if q.LabelSelector.Empty() && q.FieldSelector.Empty() {
		return nil, nil
	}
	for _, r := range q.FieldSelector.Requirements() {
		if !slices.Contains(resource.Fields, r.Field) {
			return nil, apierrors.NewBadRequest("Unable to find \"" + resource.APIVersion() + ", Resource=" + resource.Plural +
				"\" that match label selector \"\", field selector \"" + q.FieldSelector.String() + "\": field label not supported: " + r.Field)
		}
	}
	return func(o *query.Object) bool {
		if !q.LabelSelector.Matches(sinks.LabelsOf(o.Body)) {
			return false
		}
		if q.FieldSelector.Empty() {
			return true
		}
		body, set := decoded(o.Body), fields.Set{}
		for _, r := range q.FieldSelector.Requirements() {
			set[r.Field] = fieldText(r.Field, memberAt(body, cmp.Or(fieldPaths[r.Field], r.Field)))
		}
		return q.FieldSelector.Matches(set)
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
	_ = d.Decode(&object) // can't fail: the API server has sent it
	return object
}
