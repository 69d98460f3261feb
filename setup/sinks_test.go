package setup

import (
	"slices"
	"testing"

	"kubecdc/config"
)

func TestTheTableHasEverySinkThatCanBeSet(t *testing.T) {
	var names []string
	for _, e := range sinkTable {
		names = append(names, e.Name)
	}
	i := slices.IndexFunc(config.Settings(), func(s *config.Setting) bool { return s.Env == "KUBECDC_SINK" })
	if values := config.Settings()[i].Values; !slices.Equal(values, names) {
		t.Errorf("the table has %v, and KUBECDC_SINK can be %v", names, values)
	}
}
