package child

import (
	"os"
	"strings"
)

// Environ returns this process's environment for an exporter, without KUBECONFIG and every KUBECDC_ variable. The variables that tests
// read are no settings, and others may be a user's own. The exporter's memory is collected as users have it.
func Environ() (rest []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "KUBECDC_") && !strings.HasPrefix(v, "KUBECONFIG=") && !strings.HasPrefix(v, "GOGC=") {
			rest = append(rest, v)
		}
	}
	return rest
}
