package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubecdc/sinks"
	"kubecdc/test/hostile"
)

// logOf is a log that knows its resources alone.
type logOf struct {
	sinks.Reader
	resources []string
}

func (l logOf) Resources(context.Context) ([]string, error) { return l.resources, nil }

// Objects are named as for kubectl, in all commands alike. None of this needs an API server.
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
			c := newHistory()
			got, err := new(objects).of(t.Context(), c, log, strings.Fields(line))
			text := strings.Join(got.Resources, " ")
			switch {
			case err != nil:
				text = err.Error()
			case len(got.Names) > 0:
				text += ": " + strings.Join(got.Names, " ")
			case text == "":
				text = "all"
			}
			if text != want && (err == nil || !strings.Contains(text, want)) || err != nil && exitCode(err) != exitSettings {
				t.Errorf("%s, want %s", text, want)
			}
		})
	}
}

// A name may have any character but those that no object's has.
func TestAnyNameIsFound(t *testing.T) {
	log := logOf{resources: []string{"roles.rbac.authorization.k8s.io"}}
	for _, name := range hostile.Names() {
		for _, args := range [][]string{{"role", name.Text}, {"role/" + name.Text}} {
			got, err := new(objects).of(t.Context(), newHistory(), log, args)
			if q := got.Query(); err != nil || q.Name != name.Text || !slices.Equal(q.Resources, log.resources) {
				t.Errorf("%s as %d arguments: %q, %v", name.What, len(args), q.Name, err)
			}
		}
	}
}

// A missing -n means the same in all commands, and their help says so.
func TestEveryHelpSaysWhatAMissingNamespaceMeans(t *testing.T) {
	said := 0
	for _, c := range newRoot(nil, nil).Commands() {
		if c.Flags().Lookup("all-namespaces") == nil {
			continue
		}
		if said++; !strings.Contains(c.Long, "Without -n\nall namespaces count, as with -A") {
			t.Errorf("the help of %s does not", c.Name())
		}
		if code, _, stderr := exporter(t, c.Name(), "-A", "-n", "shop", "--from=1h", "--at=1h", "pods"); code != exitSettings {
			t.Errorf("%s takes -A and -n: %s", c.Name(), stderr)
		}
	}
	if said != 10 {
		t.Errorf("%d commands select namespaces", said)
	}
}

// tail takes -n as tail(1) does, too.
func TestTailTakesLinesAndNamespaces(t *testing.T) {
	for line, want := range map[string]string{"-n 20": " 20", "-n shop": "shop 0", "-n shop -n 20": "shop 20", "--lines 5 -n a1": "a1 5", "-n=-1": "-1 0"} {
		c := newTail()
		if err := c.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		set := c.Flags().Lookup("namespace").Value.(namespaceOrLines)
		if got := fmt.Sprint(set.namespace, " ", set.last); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
