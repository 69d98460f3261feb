package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/export/plan"
	"kubecdc/source/discovery"
)

// checkReading reads an object of each resource. It also warns of namespaces that do not exist, since the API server reports no
// error for them.
func (r *report) checkReading(ctx context.Context, server *discovery.Server, planned plan.Config,
	selected []change.Resource) error {
	if absent := server.Absent(ctx, planned.Namespaces); len(absent) > 0 {
		r.warn("resources", "there is no namespace "+strings.Join(absent, ", ")+
			": nothing is exported from it until it is created\n"+
			"if the name is wrong, correct KUBECDC_NAMESPACES")
	}
	var unselectable []string
	var failed []error
	for _, resource := range selected {
		err := server.Readable(ctx, planned.StreamsOf(resource)[0])
		switch {
		case apierrors.IsBadRequest(err) && planned.FieldSelector != "":
			unselectable = append(unselectable, resource.ID())
		case err != nil && !apierrors.IsForbidden(err): // checkRights says what is not allowed
			failed = append(failed, fmt.Errorf("list %s: %w", resource.ID(), err))
		}
	}
	if len(unselectable) > 0 {
		failed = append(failed, fmt.Errorf("the API server does not select these by KUBECDC_FIELD_SELECTOR (%s): %s\n"+
			"leave them out of KUBECDC_RESOURCES (!%s), or use another selector", planned.FieldSelector,
			strings.Join(unselectable, ", "), strings.Join(unselectable, ",!")))
	}
	return errors.Join(failed...)
}
