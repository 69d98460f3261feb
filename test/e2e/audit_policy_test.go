package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/test/servers"
)

const (
	configMapsPath  = "/api/v1/namespaces/default/configmaps/"
	podsPath        = "/api/v1/namespaces/default/pods/"
	deploymentsPath = "/apis/apps/v1/namespaces/default/deployments/"
	webBegins       = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"`
	webGoesOn       = `},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":
		[{"name":"c","image":"i"}]}},"replicas":`
)

// policyRequests are requests of each kind. found is the name, the uid and the version that the policy should report for each, and
// whether the request has created the object. "-" is anything, and "" is no record. NAME, UID and VERSION are of the object before, or
// of the one that the request creates.
var policyRequests = []struct{ what, method, path, body, found string }{
	{"create", "POST", configMapsPath, `{"metadata":{"generateName":"cm-"}}`, "NAME UID  true"},
	{"patch", "MERGE", configMapsPath + "NAME", `{"data":{"a":"b"}}`, "NAME UID VERSION false"},
	{"a no-op", "MERGE", configMapsPath + "NAME", `{}`, "NAME UID VERSION false"},
	{"put", "PUT", configMapsPath + "NAME", `{"metadata":{"name":"NAME","resourceVersion":"VERSION"},"data":{"a":"c"}}`, "NAME UID VERSION false"},
	{"put, whatever was there", "PUT", configMapsPath + "NAME", `{"metadata":{"name":"NAME"},"data":{"a":"d"}}`, "NAME UID VERSION false"},
	{"dry run", "POST", configMapsPath + "?dryRun=All", `{"metadata":{"name":"dry"}}`, ""},
	{"create a pod", "POST", podsPath, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "NAME UID  true"},
	{"binding", "POST", podsPath + "p/binding", `{"metadata":{"name":"p","uid":"UID"},"target":{"kind":"Node","name":"n"}}`, "NAME UID  false"},
	{"eviction", "POST", podsPath + "p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, "-"},
	{"apply creates", "APPLY", deploymentsPath + "web?force=true", webBegins + webGoesOn + "1}}", "NAME UID  true"},
	{"apply", "APPLY", deploymentsPath + "web?force=true", webBegins + webGoesOn + "2}}", "NAME UID VERSION false"},
	{"status", "PUT", deploymentsPath + "web/status", webBegins + `,"resourceVersion":"VERSION"` + webGoesOn + `2},"status":{"replicas":3}}`,
		"NAME UID VERSION false"},
	{"scale", "PUT", deploymentsPath + "web/scale", `{"metadata":{"name":"web","namespace":"default"},"spec":{"replicas":5}}`, "NAME UID VERSION false"},
	{"delete", "DELETE", deploymentsPath + "web", `{}`, "NAME UID VERSION false"},
}

// At the level Metadata, with the policy, an event has the object and the version that the request found, for any verb and
// subresource.
func TestThePolicyTellsTheVersionBefore(t *testing.T) {
	t.Parallel()
	w := newProxiedWorld(t, "sqlite")
	w.installPolicy(t)
	w.startOne(t, "the exporter")
	methods := map[string][2]string{"MERGE": {"PATCH", string(types.MergePatchType)}, "APPLY": {"PATCH", string(types.ApplyPatchType)}}
	want, o := map[string]string{}, metav1.PartialObjectMetadata{}
	for _, r := range policyRequests {
		fill := func(text string) string {
			return strings.NewReplacer("NAME", o.Name, "UID", string(o.UID), "VERSION", o.ResourceVersion).Replace(text)
		}
		method, found := methods[r.method], fill(r.found)
		if method[0] == "" {
			method = [2]string{r.method, "application/json"}
		}
		answer, err := w.alice().CoreV1().RESTClient().Verb(method[0]).RequestURI(fill(r.path)).Param("fieldManager", r.what).
			SetHeader("Content-Type", method[1]).Body([]byte(fill(r.body))).DoRaw(t.Context())
		if err != nil {
			t.Fatalf("%s: %v: %s", r.what, err, answer)
		}
		must(t, json.Unmarshal(answer, &o)) // a Status has no name
		if strings.HasSuffix(r.found, " true") {
			found = fill(r.found)
		}
		if found != "-" {
			want[r.what] = found
		}
	}
	got, log := map[string]string{}, w.logs[0].open(t)
	Await(t, "all events", func() (bool, error) {
		for _, r := range auditRecords(t, log, audit.Query{}) {
			if r.User == "alice" {
				got[r.Manager] = fmt.Sprint(r.Name, " ", r.UID, " ", r.VersionBefore, " ", r.Created)
			}
		}
		return got["delete"] != "", nil
	})
	for what := range want {
		if got[what] != want[what] {
			t.Errorf("%s tells %q, want %q", what, got[what], want[what])
		}
	}
}

// If many clients write one object at once, the API server retries a write upon a newer version. It retains the first value of
// each annotation. Each event with only one version has the right one, and most others have it too.
func TestSlowThePolicyTellsTheLastAttempt(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	w := newProxiedWorld(t, "sqlite")
	w.installPolicy(t)
	w.startOne(t, "the exporter")
	cms := w.alice().CoreV1().ConfigMaps("default")
	created, err := cms.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "busy"}}, metav1.CreateOptions{})
	must(t, err)
	var mu sync.Mutex
	after := map[change.ResourceVersion]string{change.ResourceVersion(created.ResourceVersion): ""}
	var wg sync.WaitGroup
	const writers, writes = 8, 60
	for i := range writers {
		wg.Go(func() {
			for n := range writes {
				manager := fmt.Sprintf("%d-%d", i, n)
				cm, err := cms.Patch(t.Context(), "busy", types.MergePatchType, fmt.Appendf(nil, `{"data":{"%d":"%d"}}`, i, n), metav1.PatchOptions{FieldManager: manager})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				after[change.ResourceVersion(cm.ResourceVersion)] = manager
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	versions := slices.SortedFunc(maps.Keys(after), change.ResourceVersion.Compare)
	before := map[string]change.ResourceVersion{}
	for i, v := range versions[1:] {
		before[after[v]] = versions[i]
	}
	reported, retried := map[string]change.ResourceVersion{}, map[string]bool{}
	log := w.logs[0].open(t)
	Await(t, "all events", func() (bool, error) {
		for _, r := range auditRecords(t, log, audit.Query{}) {
			if r.Name == "busy" && r.Verb == "patch" {
				reported[r.Manager], retried[r.Manager] = r.VersionBefore, r.Retried
			}
		}
		return len(reported) == len(before), nil
	})
	again, wrong := 0, 0
	for manager, v := range before {
		if retried[manager] {
			again++
		} else if reported[manager] != v {
			t.Errorf("%s was not tried again, and tells %s, want %s", manager, reported[manager], v)
		}
		if reported[manager] != v {
			wrong++
		}
	}
	t.Logf("of %d events %d were tried again, and %d tell another version", len(before), again, wrong)
	if again == 0 || wrong*2 > again {
		t.Error("none was tried again, or most of these are wrong")
	}
}
