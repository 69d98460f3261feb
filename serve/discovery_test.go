package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
	"kubecdc/test/servers"
)

// A log is from another Kubernetes, which had another version of a built-in resource. It has a resource of an aggregated API server, too,
// and a CRD whose preferred version came after the export. Each is served as the API server of the moment described it.
func TestResourcesAreThoseOfTheMoment(t *testing.T) {
	file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
	sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u"}))
	log := opened(t, sink)
	classes := change.APIResource{Resource: change.Resource{Group: "resource.k8s.io", Version: "v1beta1", Plural: "deviceclasses", Kind: "DeviceClass"}, Singular: "deviceclass"}
	flunders := change.APIResource{Resource: change.Resource{Group: "wardle.example.com", Version: "v1alpha1", Plural: "flunders", Kind: "Flunder", Namespaced: true},
		Singular: "flunder", Short: []string{"fl"}, Categories: []string{"all"}}
	planets := change.APIResource{Resource: change.Resource{Group: "space.example.com", Version: "v1", Plural: "planets", Kind: "Planet"}, Singular: "planet"}
	definitions := change.APIResource{Resource: builtin()[crds].Resource, Singular: "customresourcedefinition"}
	now := time.Now().Truncate(time.Second)
	body := func(r change.APIResource, more string) []byte {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":"a","creationTimestamp":%q}%s}`, r.Kind, r.APIVersion(), now.Add(-time.Hour).Format(time.RFC3339), more)
	}
	crd := `,"spec":{"group":"space.example.com","scope":"Cluster","names":{"plural":"planets","singular":"planet","kind":"Planet"},"versions":[` +
		`{"name":"v1","served":true,"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".size"}]},{"name":"v2","served":true}]}`
	b := &change.Batch{Epoch: 1, Seq: 1}
	for _, r := range []change.APIResource{classes, flunders, planets, definitions} {
		stream, more := change.NewStream(r.Resource, "", "", ""), `,"size":7`
		if r.Plural == definitions.Plural {
			more = crd
		}
		b.Controls = append(b.Controls, change.SnapshotBeginControl(stream.ID(), ""))
		b.Positions = append(b.Positions, change.Position{Stream: stream.ID(), ResourceVersion: "9", Time: now.Add(-30 * time.Minute)})
		b.Changes = append(b.Changes, change.Change{Stream: stream, Op: change.Read, Name: "a", UID: "u" + r.Plural, ResourceVersion: "7", Time: now.Add(-30 * time.Minute), After: body(r, more)})
	}
	_, err := log.Write(t.Context(), b)
	ok(t, err)
	storeList(t, sink, now.Add(-30*time.Minute), classes, flunders, planets, definitions)
	classes.Version, flunders.Short = "v1beta2", []string{"flu"}
	storeList(t, sink, now.Add(-10*time.Minute), classes, flunders, planets, definitions)
	p := &past{server: New(must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, cluster)), nil, slog.New(slog.DiscardHandler))}
	for path, want := range map[string]string{
		"/at/20m/apis/resource.k8s.io/v1beta1":                       `"name":"deviceclasses","singularName":"deviceclass","namespaced":false`,
		"/at/20m/apis/resource.k8s.io/v1beta1/deviceclasses/a":       `"apiVersion":"resource.k8s.io/v1beta1"`,
		"/apis/resource.k8s.io/v1beta2":                              `"name":"deviceclasses"`,
		"/at/20m/apis/wardle.example.com/v1alpha1":                   `"shortNames":["fl"],"categories":["all"]`,
		"/apis/wardle.example.com/v1alpha1":                          `"shortNames":["flu"]`,
		"/at/9/apis/wardle.example.com/v1alpha1/flunders":            `"kind":"FlunderList"`,
		"/at/checkpoint/0/1/apis/wardle.example.com/v1alpha1":        `"shortNames":["fl"]`,
		"/apis/space.example.com":                                    `"preferredVersion":{"groupVersion":"space.example.com/v1"`,
		"/at/20m/openapi/v3/apis/wardle.example.com/v1alpha1":        `The log has no schema of this resource`,
		"/at/20m/apis/resource.k8s.io/v1beta1/deviceclasses?limit=1": `"name":"a"`,
	} {
		if a := p.ours(path, asObjects); a.code != http.StatusOK || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %.500s, want %s", path, a.code, a.body, want)
		}
	}
	for path, want := range map[string]string{"wardle.example.com/v1alpha1/flunders": `"cells":["a","30m"]` /* the log ends then */, "space.example.com/v1/planets": `"cells":["a",7]`} {
		if a := p.ours("/apis/"+path, asTable); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %.800s, want %s", path, a.body, want)
		}
	}
	if a := p.ours("/apis/space.example.com/v2/planets", asObjects); a.code != http.StatusNotFound {
		t.Errorf("a version that was not logged: %d", a.code)
	}
}

// CRDs are selected later than the rest. A moment before that has the resources of that time.
func TestResourcesBeforeCRDsWereSelected(t *testing.T) {
	file := must[*sqlitefile.File](t)(sqlitefile.Own(t.Context(), filepath.Join(t.TempDir(), "log")))
	sink := must[*sqlite.Sink](t)(sqlite.New(t.Context(), file, sqlite.Config{Cluster: cluster, ClusterUID: "u"}))
	log := opened(t, sink)
	flunders := change.APIResource{Resource: change.Resource{Group: "wardle.example.com", Version: "v1alpha1", Plural: "flunders", Kind: "Flunder"}, Singular: "flunder"}
	definitions := change.APIResource{Resource: builtin()[crds].Resource, Singular: "customresourcedefinition"}
	now, all := time.Now().Truncate(time.Second), []change.APIResource{}
	for seq, r := range []change.APIResource{{Resource: builtin()["nodes"].Resource, Singular: "node"}, flunders, definitions} {
		stream, since := change.NewStream(r.Resource, "", "", ""), now.Add(time.Duration(seq-3)*10*time.Minute)
		_, err := log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: uint64(seq + 1), Controls: []change.Control{change.SnapshotBeginControl(stream.ID(), "")},
			Positions: []change.Position{{Stream: stream.ID(), ResourceVersion: change.VersionOf(uint64(9 + seq)), Time: since}}})
		ok(t, err)
		all = append(all, r)
		storeList(t, sink, since, all...)
	}
	p := &past{server: New(must[*sqlite.Reader](t)(sqlite.NewReader(t.Context(), file, cluster)), nil, slog.New(slog.DiscardHandler))}
	for _, moment := range []string{"", "/at/15m", "/at/checkpoint/0/2"} {
		if a := p.ours(moment+"/apis/wardle.example.com/v1alpha1/flunders", asObjects); a.code != http.StatusOK {
			t.Errorf("%s: %d %.300s", moment, a.code, a.body)
		}
	}
}

// storeList stores a list of resources.
func storeList(t *testing.T, sink *sqlite.Sink, since time.Time, resources ...change.APIResource) {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	ok(t, json.NewEncoder(w).Encode(resources))
	ok(t, w.Close())
	ok(t, sink.WriteSchema(t.Context(), &sinks.Schema{Path: sinks.ResourcesPath, Hash: fmt.Sprint(since), Since: since, Document: packed.Bytes()}))
}

// The version of a resource is the selected one, though the API server prefers another.
func TestSlowTheSelectedVersionIsServed(t *testing.T) {
	servers.Slow(t)
	p := newPast(t, "KUBECDC_RESOURCES=horizontalpodautoscalers.v1.autoscaling,pods")
	hpa := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
		MaxReplicas: 3, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
	must[*autoscalingv1.HorizontalPodAutoscaler](t)(p.client.AutoscalingV1().HorizontalPodAutoscalers("default").Create(t.Context(), hpa, metav1.CreateOptions{}))
	for path, member := range map[string]string{"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/web": "spec", "/openapi/v3/apis/autoscaling/v1": "components"} {
		servers.Await(t, "the same answer to "+path, func() (bool, error) {
			var ours, real map[string]any
			err := json.Unmarshal(p.ours(path, asObjects).body, &ours)
			ok(t, json.Unmarshal(p.real(path, asObjects).body, &real))
			return err == nil && ours[member] != nil && reflect.DeepEqual(ours[member], real[member]) && ours["apiVersion"] == real["apiVersion"], nil
		})
	}
	group := string(p.ours("/apis/autoscaling", asObjects).body)
	if !strings.Contains(group, `"preferredVersion":{"groupVersion":"autoscaling/v1"`) || strings.Contains(group, "v2") {
		t.Errorf("the group is %s", group)
	}
}
