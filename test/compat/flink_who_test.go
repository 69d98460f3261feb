package compat

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubecdc/audit"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/e2e"
)

// flinkWho joins the changes to the audit topic, as docs/who.md shows it.
var flinkWho = consumer{name: "flink-who", few: true, title: flinkTitle + ", who made the present version",
	needs: "before-images, audit events: [statements](who.md#grades)", install: installFlink, expect: lastWriters, read: readWho}

// readWho goes on until the table is right: audit events come when they come.
func readWho(ctx context.Context, r reading) ([]row, error) {
	const query = "SELECT `namespace`, `name`, who FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `namespace`, `name` ORDER BY `position` DESC) AS n FROM changes_by) " +
		"WHERE n = 1 AND op <> 'd'"
	path, err := r.place("statements.sql", read("flink/who.sql")+query+";\n")
	if err != nil {
		return nil, err
	}
	return r.untilRight(ctx, exec.Command("java", javaArgs(r, []string{flinkLibs, flinkProgram}, "Flink", path, r.dir)...))
}

// lastWriters are who made the present version of each pod.
func lastWriters(live objects) (rows []row) {
	for _, pod := range live[pods] {
		rows = append(rows, object{"namespace": field(pod, "metadata", "namespace"), "name": field(pod, "metadata", "name"), "who": field(pod, "metadata", "labels", "by")})
	}
	return rows
}

const auditFile = "audit.log"

// tellWho installs the policy that has audit events tell versions, and waits until it is in force.
func (s *stack) tellWho(t *testing.T) {
	must(t, auditpolicy.Create(t.Context(), s.kube.Config))
	e2e.Await(t, "the policy to be in force", func() (bool, error) {
		probe := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "probe"}}}
		_, err := s.cluster.Resource(e2e.ConfigMaps.GVR).Namespace("default").Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return false, err
		}
		text, err := os.ReadFile(filepath.Join(s.kube.Dir, auditFile))
		return bytes.Contains(text, []byte("/"+audit.Annotation)), err
	})
}
