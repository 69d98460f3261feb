package main

import (
	"path/filepath"
	"strings"
	"testing"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/test/servers"
)

const widgets = "../../schema/testdata/widgets.yaml"

func TestSchemaOfACRDFile(t *testing.T) {
	code, out, stderr := exporter(t, "schema", "widgets", "--as", "flink", "--crds", widgets, "--columns", "spec.count,spec.ratio",
		"--kafka-brokers", "b:1,c:2", "--kafka-topic-prefix", "shop", "--redact", "widgets.shop.example-corp.com:spec.count,pods:spec.ratio")
	for _, want := range []string{"`spec` ROW<`count` STRING, `ratio` DOUBLE>", "'topic' = 'shop.widgets.", "= 'b:1,c:2'"} {
		if code != cli.ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, lacks %s: %s\n%s", code, want, stderr, out)
		}
	}
}

func TestSchemaExplainsAWrongCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"name one resource":                   {"--as", "flink"},
		"did you mean flink?":                 {"widgets", "--as", "flnk"},
		"no such file or directory; name a":   {"widgets", "--as", "flink", "--crds", filepath.Join(t.TempDir(), "none")},
		"neither YAML nor JSON of a Custom":   {"widgets", "--as", "flink", "--crds", "main.go"},
		`the file of CRDs has no resource "w`: {"widgetz", "--as", "flink", "--crds", widgets},
		`spec has no member "cuont"; did you`: {"widgets", "--as", "flink", "--crds", widgets, "--columns", "spec.cuont"},
		"use --as flink-upsert":               {"widgets", "--as", "flink", "--crds", widgets, "--before", "none"},
		"no column is left":                   {"widgets", "--as", "flink", "--crds", widgets, "--columns", "spec", "--without", "spec"},
		"KUBECONFIG (--kubeconfig): not set":  {"widgets", "--as", "flink"},
		"JsonConverter can read none of the":  {"widgets", "--as", "connect", "--crds", widgets, "--columns", "spec.anything"},
	} {
		code, out, stderr := exporter(t, append([]string{"schema"}, args...)...)
		if code != cli.ExitSettings || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, stderr)
		}
	}
}

func TestSchemaOfACluster(t *testing.T) {
	kubeconfig := servers.Kube(t).Kubeconfig
	code, out, stderr := exporter(t, "schema", "deployments.apps", "--as", "flink", "--columns", "spec.replicas", "--kubeconfig", kubeconfig)
	if code != cli.ExitOK || !strings.Contains(out, "`spec` ROW<`replicas` BIGINT>") {
		t.Errorf("exit code %d: %s\n%s", code, stderr, out)
	}
	code, _, stderr = exporter(t, "schema", "deployment", "--as", "flink", "--kubeconfig", kubeconfig)
	if code != cli.ExitSettings || !strings.Contains(stderr, "did you mean deployments.apps?") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
