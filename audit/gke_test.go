package audit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// gke is an entry as GKE writes it (https://cloud.google.com/kubernetes-engine/docs/how-to/audit-logging#audit_log_format), with the policy's
// annotations among its labels.
const gke = `{"protoPayload":{"@type":"type.googleapis.com/google.cloud.audit.AuditLog","authenticationInfo":{"principalEmail":"alice@example.com"},
	"authorizationInfo":[{"granted":true,"permission":"io.k8s.apps.v1.deployments.update","resource":"apps/v1/namespaces/shop/deployments/web"}],
	"methodName":"io.k8s.apps.v1.deployments.update","request":{"@type":"apps.k8s.io/v1.Deployment","metadata":{"name":"web","resourceVersion":"41"}},
	"requestMetadata":{"callerIp":"10.0.0.7","callerSuppliedUserAgent":"kubectl/v1.36"},"resourceName":"apps/v1/namespaces/shop/deployments/web",
	"response":{"@type":"apps.k8s.io/v1.Deployment","metadata":{"name":"web","uid":"u-1","resourceVersion":"42"}},"serviceName":"k8s.io",
	"status":{"code":0}},"insertId":"6f2","resource":{"type":"k8s_cluster","labels":{"cluster_name":"c","location":"europe-west1","project_id":"p"}},
	"timestamp":"2026-03-01T10:00:00.123456Z","labels":{"authorization.k8s.io/decision":"allow","who.example.com/kubecdc-object-9-5":"u-1 old 41"},
	"logName":"projects/p/logs/cloudaudit.googleapis.com%2Factivity","operation":{"id":"6f2","producer":"k8s.io","first":true,"last":true},
	"receiveTimestamp":"2026-03-01T10:00:01.5Z"}`

// entryOf is the entry with other members in its protoPayload, and without annotations and bodies if it has others.
func entryOf(payload, more string) string {
	var members, others map[string]any
	if json.Unmarshal([]byte(gke), &members) != nil || json.Unmarshal([]byte(`{`+more+`}`), &others) != nil {
		panic(more)
	}
	for name, value := range others {
		members[name] = value
	}
	proto := members["protoPayload"].(map[string]any)
	if payload != "" {
		delete(proto, "request")
		delete(proto, "response")
		delete(members, "labels")
	}
	if json.Unmarshal([]byte(`{`+payload+`}`), &proto) != nil {
		panic(payload)
	}
	text, _ := json.Marshal(members)
	return string(text)
}

func TestEntriesOfGKE(t *testing.T) {
	got, _ := parse(t, &Parser{}, gke)
	want := Record{AuditID: "6f2", Time: time.Date(2026, 3, 1, 10, 0, 0, 123456000, time.UTC), Answered: time.Date(2026, 3, 1, 10, 0, 1, 500000000, time.UTC),
		Received: time.Unix(7, 0).UTC(), Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "u-1", VersionBefore: "41", VersionAfter: "42",
		Effect: Wrote, Verb: "update", Code: 200, User: "alice@example.com", UserAgent: "kubectl/v1.36", Addresses: []string{"10.0.0.7"}}
	if len(got) == 1 {
		want.ID = got[0].ID
	}
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Fatalf("%+v\nwant\n%+v", got, want)
	}
	audited := func(method, name string) string {
		return fmt.Sprintf(`"methodName":"io.k8s.%s","resourceName":%q`, method, name)
	}
	for entry, want := range map[string]string{
		entryOf(audited("core.v1.pods.create", "core/v1/namespaces/shop/pods"), ""):                                        "create pods shop/  200",
		entryOf(audited("core.v1.pods.deletecollection", "core/v1/namespaces/shop/pods"), ""):                              "deletecollection pods shop/  200",
		entryOf(audited("core.v1.nodes.status.patch", "core/v1/nodes/a/status"), ""):                                       "patch nodes /a status 200",
		entryOf(audited("core.v1.namespaces.delete", "core/v1/namespaces/shop"), ""):                                       "delete namespaces /shop  200",
		entryOf(audited("core.v1.namespaces.finalize.update", "core/v1/namespaces/shop/finalize"), ""):                     "update namespaces /shop finalize 200",
		entryOf(audited("apps.v1.deployments.scale.patch", "apps/v1/namespaces/shop/deployments/web/scale"), ""):           "patch deployments.apps shop/web scale 200",
		entryOf(audited("authorization.rbac.v1.roles.delete", "rbac.authorization.k8s.io/v1/namespaces/shop/roles/r"), ""): "delete roles.rbac.authorization.k8s.io shop/r  200",
		entryOf(`"status":{"code":7}`, ""):                  "",
		entryOf(`"status":{"code":10}`, ""):                 "",
		entryOf(`"status":{"code":14}`, ""):                 "update deployments.apps shop/web  500",
		entryOf(audited("core.v1.pods.get", "core/v1"), ""): "",
		entryOf(`"serviceName":"example.com"`, ""):          "",
		entryOf("", `"operation":{"first":true}`):           "",
		entryOf("", `"timestamp":null`):                     "broken",
		entryOf(`"requestMetadata":{"callerIp":7}`, ""):     "broken",
		entryOf(audited("core.v1.pods.create", ""), ""):     "",
	} {
		got, tally := parse(t, &Parser{}, entry)
		text := ""
		if tally.Broken > 0 {
			text = "broken"
		}
		for _, r := range got {
			text += fmt.Sprintf("%s %s %s/%s %s %d", r.Verb, r.Resource, r.Namespace, r.Name, r.Subresource, r.Code)
		}
		if text != want {
			t.Errorf("%s\nis %q, want %q", entry, text, want)
		}
	}
}
