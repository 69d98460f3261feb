package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kubecdc/sinks"
	"kubecdc/test/hostile"
)

// logOf is a log that has only the names of its resources.
type logOf struct {
	sinks.Reader
	resources []string
}

func (l logOf) Resources(context.Context) ([]string, error) { return l.resources, nil }

// All commands name objects like kubectl. None of this needs an API server.
func TestObjectsAreNamedAsForKubectl(t *testing.T) {
	log := logOf{resources: []string{"configmaps", "deployments.apps", "pods", "nodes"}}
	for line, want := range map[string]string{
		"":                         "all",
		"pods":                     "pods",
		"po":                       "pods",
		"pod,deploy,pods":          "deployments.apps pods",
		"deploy web":               "deployments.apps: deployments.apps/web",
		"deployments.apps web db":  "deployments.apps: deployments.apps/web deployments.apps/db",
		"deploy/web":               "deployments.apps: deployments.apps/web",
		"deploy/web cm/app":        "configmaps deployments.apps: deployments.apps/web configmaps/app",
		"deploy/web deployment/db": "deployments.apps: deployments.apps/web deployments.apps/db",
		"cm,pod app":               "configmaps pods: configmaps/app pods/app",
		"deployment.v1.apps/web":   "deployments.apps: deployments.apps/web",
		"Pod web":                  "pods: pods/web",
		"cm system:a.b":            "configmaps: configmaps/system:a.b",
		"cm pod":                   "configmaps: configmaps/pod",
		"pods/deployments.apps":    "pods: pods/deployments.apps",
		"pods deployments.apps":    "is a type, too: write pods,deployments.apps for both, or pods/deployments.apps",
		"cm pods":                  "is a type, too",
		"deploy/web db":            "name objects as TYPE NAME NAME, or as TYPE/NAME TYPE/NAME",
		"deploy web cm/app":        "name objects as",
		"deploy/":                  "write TYPE/NAME",
		"/web":                     "names nothing",
		"po/a/b":                   "write TYPE/NAME",
		"po,cm/a":                  "write TYPE/NAME",
		"po,":                      "names nothing",
		",":                        "names nothing",
		"podz":                     `the log has no changes of "podz": did you mean pods? it has`,
		"deploy.example.com":       "the log has no changes of",
		"secrets/a":                "the log has no changes of",
	} {
		t.Run(line, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "/nowhere")
			c := history()
			got, err := new(Objects).Select(t.Context(), c, log, strings.Fields(line))
			text := strings.Join(got.Resources, " ")
			switch {
			case err != nil:
				text = err.Error()
			case len(got.Names) > 0:
				text += ": " + strings.Join(got.Names, " ")
			case text == "":
				text = "all"
			}
			if text != want && (err == nil || !strings.Contains(text, want)) || err != nil && ExitCode(err) != ExitSettings {
				t.Errorf("%s, want %s", text, want)
			}
		})
	}
}

// A name may have any character that object names can have.
func TestAnyNameIsFound(t *testing.T) {
	log := logOf{resources: []string{"roles.rbac.authorization.k8s.io"}}
	for _, name := range hostile.Names() {
		for _, args := range [][]string{{"role", name.Text}, {"role/" + name.Text}} {
			got, err := new(Objects).Select(t.Context(), history(), log, args)
			if q := got.Query(); err != nil || q.Name != name.Text || !slices.Equal(q.Resources, log.resources) {
				t.Errorf("%s as %d arguments: %q, %v", name.What, len(args), q.Name, err)
			}
		}
	}
}

// history is a command that reads a log.
func history() *cobra.Command { return WithSettings(&cobra.Command{}, OfLog) }
