package discovery_test

import (
	"fmt"

	"kubecdc/source/discovery"
)

// A wildcard selects all resources of a group, ! leaves one out, and Secrets are selected by their name alone.
func ExampleParsePatterns() {
	patterns, err := discovery.ParsePatterns([]string{"*.apps", "!statefulsets.apps", "pods", "secrets"})
	fmt.Println(patterns, err)
	for _, id := range []string{"deployments.apps", "statefulsets.apps", "pods", "secrets", "configmaps"} {
		fmt.Println(id, discovery.Selects(patterns, id))
	}
	// Output:
	// [*.apps !statefulsets.apps pods secrets] <nil>
	// deployments.apps true
	// statefulsets.apps false
	// pods true
	// secrets true
	// configmaps false
}
