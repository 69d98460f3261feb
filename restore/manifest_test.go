package restore_test

import (
	"strings"
	"testing"

	"kubecdc/internal/cells"
	"kubecdc/query"
	"kubecdc/restore"
)

func object(body string) *query.Object {
	if body == "" {
		return nil
	}
	return &query.Object{Name: "a", Body: []byte(body)}
}

func TestPlans(t *testing.T) {
	const hash = `"hmac-sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
	owner := func(restore.Owner) string { return "new" }
	for _, c := range []struct {
		what, resource, then, now string
		options                   restore.Options
		want                      string // verb, manifest, kept, or an error
	}{
		{"nothing", "pods", "", "", restore.Options{}, " null []"},
		{"it did not exist", "pods", "", `{"spec":{}}`, restore.Options{}, "delete null []"},
		{"the same", "pods", `{"metadata":{"uid":"1","resourceVersion":"1"},"spec":{"a":1.0}}`, `{"metadata":{"uid":"1","resourceVersion":"2"},"spec":{"a":1.0},"status":{}}`,
			restore.Options{}, " null []"},
		{"replaced", "configmaps", `{"metadata":{"uid":"1"},"data":{"a":"1"}}`, `{"metadata":{"uid":"2"},"data":{"b":"1"}}`, restore.Options{},
			`replace {"data":{"a":"1"},"metadata":{}} []`},
		{"an autoscaler's replicas", "deployments.apps", `{"metadata":{},"spec":{"replicas":3,"paused":true}}`, `{"metadata":{},"spec":{"replicas":7}}`,
			restore.Options{Scaled: true}, `replace {"metadata":{},"spec":{"paused":true,"replicas":7}} [spec.replicas]`},
		{"created with its replicas", "deployments.apps", `{"metadata":{},"spec":{"replicas":3}}`, "", restore.Options{Scaled: true},
			`create {"metadata":{},"spec":{"replicas":3}} []`},
		{"an ignored field", "configmaps", `{"metadata":{},"data":{"a":"1","noise":"1"}}`, `{"metadata":{},"data":{"a":"2","noise":"2"}}`,
			restore.Options{Ignored: []string{"data.noise"}}, `replace {"data":{"a":"1","noise":"2"},"metadata":{}} [data.noise]`},
		{"an address", "services", `{"metadata":{},"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]}}`, "", restore.Options{},
			`create {"metadata":{},"spec":{}} [spec.clusterIP spec.clusterIPs]`},
		{"no address", "services", `{"metadata":{},"spec":{"clusterIP":"None"}}`, "", restore.Options{}, `create {"metadata":{},"spec":{"clusterIP":"None"}} []`},
		{"an owner made again", "pods", `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"old"}]}}`, "", restore.Options{Owner: owner},
			`create {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"new"}]}} []`},
		{"a dead owner", "pods", `{"metadata":{"ownerReferences":[{"kind":"ReplicaSet","name":"r","uid":"old"}]}}`, "",
			restore.Options{Owner: func(restore.Owner) string { return "" }}, `create {"metadata":{}} [metadata.ownerReferences]`},
		{"a revision", "deployments.apps", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}},"spec":{"a":1}}`, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"2"}},"spec":{"a":2}}`,
			restore.Options{}, `replace {"metadata":{"annotations":{"deployment.kubernetes.io/revision":"2"}},"spec":{"a":1}} [metadata.annotations.deployment.kubernetes.io/revision]`},
		{"redacted", "secrets", `{"data":{"a":` + hash + `}}`, "", restore.Options{}, "hashes in place of its redacted values"},
		{"an image's digest is no hash", "pods", `{"status":{"imageID":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},"spec":{}}`, "", restore.Options{}, `create {"spec":{}} []`},
		{"metadata alone", "configmaps", `{"kind":"PartialObjectMetadata","metadata":{}}`, "", restore.Options{}, "only its metadata"},
	} {
		plan, err := restore.NewPlan(c.resource, object(c.then), object(c.now), c.options)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		manifest := "null"
		if plan.Manifest != nil {
			manifest = cells.Compact(plan.Manifest)
		}
		if got := plan.Verb + " " + manifest + " [" + strings.Join(plan.Left, " ") + "]"; got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
