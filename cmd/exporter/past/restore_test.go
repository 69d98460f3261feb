package past

import (
	"strings"
	"testing"

	"kubecdc/sinks"
	"kubecdc/test/gappedlog"
)

// Each of several objects that are read has its own body.
func TestOtherObjectsHaveTheirOwnBodies(t *testing.T) {
	others := newOtherObjects(t.Context(), gappedlog.New(t), nil)
	found := others.read(sinks.Objects{Resources: []string{"pods"}})
	if len(found) != 18 || others.failed != nil {
		t.Fatalf("%d objects, %v", len(found), others.failed)
	}
	for _, o := range found {
		if !strings.Contains(string(o.Body), `"`+o.Name+`"`) {
			t.Errorf("the body of %s is %s", o.Name, o.Body)
		}
	}
}
