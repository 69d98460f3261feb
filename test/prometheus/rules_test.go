// Package main has Prometheus test the alerts, and checks the queries of rules and dashboard.
package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write prometheusrule.yaml")

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestEveryAlertIsTestedAndHasARunbook(t *testing.T) {
	tests := string(must[[]byte](t)(os.ReadFile(folder + "rules_test.yaml")))
	page := string(must[[]byte](t)(os.ReadFile("../../docs/monitoring.md")))
	alerts := 0
	for _, g := range must[rules](t)(readRules()).Groups {
		for _, r := range g.Rules {
			alerts++
			if !strings.Contains(tests, `alertname="`+r.Alert+`"`) {
				t.Errorf("rules_test.yaml does not let %s fire", r.Alert)
			}
			if want := "docs/monitoring.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("the runbook of %s is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
			}
			if !strings.Contains(page, "\n### "+r.Alert+"\n") {
				t.Errorf("docs/monitoring.md has no section %s", r.Alert)
			}
		}
	}
	if sections := len(regexp.MustCompile(`(?m)^### Kubecdc\w+$`).FindAllString(page, -1)); sections != alerts {
		t.Errorf("docs/monitoring.md has %d sections on %d alerts", sections, alerts)
	}
}

// The operator's form of the rules is made of the plain one.
func TestPrometheusRuleIsUpToDate(t *testing.T) {
	manifest := map[string]any{"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]string{"name": "kubecdc", "namespace": "kubecdc"}, "spec": must[rules](t)(readRules())}
	want := "# For the Prometheus operator: rules.yaml, by make docs.\n" + string(must[[]byte](t)(yaml.Marshal(manifest)))
	const file = folder + "prometheusrule.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := must[[]byte](t)(os.ReadFile(file)); string(got) != want {
		t.Errorf("%s is not up to date: make docs", file)
	}
}

// Rules and dashboard name only metrics that exist, and labels that they have.
func TestQueriesNameWhatThereIs(t *testing.T) {
	known := must[map[string][]string](t)(labelsOf())
	for _, runtime := range []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "process_resident_memory_bytes", "process_cpu_seconds_total",
		"process_start_time_seconds", "up"} {
		known[runtime] = nil
	}
	queries := must[dashboard](t)(readDashboard()).queries()
	for _, g := range must[rules](t)(readRules()).Groups {
		for _, r := range g.Rules {
			queries = append(queries, query{r.Alert, r.Expr})
		}
	}
	target := []string{labels.MetricName, "job", "instance", "namespace", "app_kubernetes_io_instance"}
	for _, q := range queries {
		expr := must[parser.Expr](t)(parser.NewParser(parser.Options{}).ParseExpr(q.expr))
		var possible []string
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			s, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			own, exists := known[s.Name]
			if !exists {
				t.Errorf("%s: there is no metric %s", q.title, s.Name)
			}
			possible = append(possible, own...)
			for _, m := range s.LabelMatchers {
				if !slices.Contains(own, m.Name) && !slices.Contains(target, m.Name) {
					t.Errorf("%s: %s has no label %s", q.title, s.Name, m.Name)
				}
			}
			return nil
		})
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if a, ok := node.(*parser.AggregateExpr); ok {
				for _, label := range a.Grouping {
					if !slices.Contains(possible, label) && !slices.Contains(target, label) {
						t.Errorf("%s: no metric has the label %s", q.title, label)
					}
				}
			}
			return nil
		})
	}
}
