package serve

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"kubecdc/internal/cells"
	"kubecdc/query"
	"kubecdc/sinks"
)

// special are the selectable fields of built-in resources that are not a text at their own path, by resource. Any other
// resource's field is at its path, and "" if it is absent.
var special = map[string]field{
	"events/source":                          {path: "source.component"},
	"jobs.batch/status.successful":           {path: "status.succeeded", absent: "0"},
	"replicationcontrollers/status.replicas": {absent: "0"},
	"nodes/spec.unschedulable":               {absent: "false"},
	"pods/spec.hostNetwork":                  {absent: "false"},
}

// field is a path in the object, if that differs from the field, and what an absent value counts as.
type field struct{ path, absent string }

// matcher returns a function that reports whether the selectors select an object, or nil without selectors.
func (q *request) matcher(resource *served) (func(o *query.Object) bool, error) {
	if q.LabelSelector.Empty() && q.FieldSelector.Empty() {
		return nil, nil
	}
	for _, r := range q.FieldSelector.Requirements() {
		if !slices.Contains(resource.Fields, r.Field) {
			return nil, apierrors.NewBadRequest("Unable to find \"" + resource.APIVersion() + ", Resource=" + resource.Plural +
				"\" that match label selector \"\", field selector \"" + q.FieldSelector.String() +
				"\": field label not supported: " + r.Field)
		}
	}
	return func(o *query.Object) bool {
		if !q.LabelSelector.Matches(sinks.LabelsOf(o.Body)) {
			return false
		}
		if q.FieldSelector.Empty() {
			return true
		}
		body, set := cells.Decoded(o.Body), fields.Set{}
		for _, r := range q.FieldSelector.Requirements() {
			f := special[resource.ID()+"/"+r.Field]
			if set[r.Field] = f.absent; cells.MemberAt(body, cmp.Or(f.path, r.Field)) != nil {
				set[r.Field] = cells.TextOf(cells.MemberAt(body, cmp.Or(f.path, r.Field)))
			}
		}
		return q.FieldSelector.Matches(set)
	}, nil
}
