package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubecdc/audit"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/servers"
)

// flinkWho joins the changes to the audit topic, as docs/who.md shows it.
var flinkWho = consumer{name: "flink-who", few: true, title: flinkTitle + ", who made the present version",
	needs: "before-images, audit events: [statements](who.md#flink)", install: installFlink, expect: lastWriters, read: readWho}

// readWho goes on until the table is right: audit events come when they come.
func readWho(ctx context.Context, r reading) ([]row, error) {
	const query = "SELECT `name`, who FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `namespace`, `name` ORDER BY `position` DESC) AS n FROM changes_by) " +
		"WHERE n = 1 AND op <> 'd'"
	path, err := r.place("statements.sql", read("flink/who.sql")+query+";\n")
	if err != nil {
		return nil, err
	}
	return r.untilRight(ctx, exec.Command("java", javaArgs(r, []string{flinkLibs, flinkProgram}, "Flink", path, r.dir)...))
}

// lastWriters are who made the present version of each pod: its labels tell in which part of the work it was changed last.
func lastWriters(live objects) (rows []row) {
	for _, pod := range live[pods.Resource] {
		who := lifeUser(field(pod, "metadata", "labels", "life"))
		if turn, changed := field(pod, "metadata", "labels", "turn").(string); changed {
			part, _, _ := strings.Cut(turn, ".")
			who = partUser(part)
		}
		rows = append(rows, object{"name": field(pod, "metadata", "name"), "who": who})
	}
	return rows
}

// Who creates a pod, and who changes it.
func lifeUser(life any) string { return fmt.Sprint("life-", life) }
func partUser(part any) string { return fmt.Sprint("part-", part) }

type actor struct{}

// as has requests of the context act as a user.
func as(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, actor{}, user)
}

type acting struct{ next http.RoundTripper }

func (a acting) RoundTrip(r *http.Request) (*http.Response, error) {
	if user, ok := r.Context().Value(actor{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Impersonate-User", user)
		r.Header.Set("Impersonate-Group", "system:masters")
	}
	return a.next.RoundTrip(r)
}

const auditFile = "audit.log"

// tellWho installs the policy that has audit events tell versions, and waits until it is in force.
func (s *stack) tellWho(ctx context.Context) error {
	if err := auditpolicy.Create(ctx, s.kube.Config); err != nil {
		return err
	}
	return servers.Until(ctx, "the policy to be in force", func() (bool, error) {
		probe := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "probe"}}}
		_, err := s.cluster.Resource(configmaps).Namespace("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return false, err
		}
		text, err := os.ReadFile(filepath.Join(s.kube.Dir, auditFile))
		return bytes.Contains(text, []byte("/"+audit.Annotation)), err
	})
}
