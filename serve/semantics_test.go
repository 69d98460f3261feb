package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/test/servers"
)

// semantics are requests for the ConfigMaps of a namespace. a existed at OLD, and b was created at MIDDLE. Then a was changed and b
// deleted. etcd is compacted after OLD. NEW is the last version, and FUTURE comes much later.
var semantics = []string{
	"", "resourceVersion=0", "resourceVersion=OLD", "resourceVersion=NEW", "resourceVersion=FUTURE", "resourceVersion=x",
	"resourceVersion=OLD&resourceVersionMatch=NotOlderThan", "resourceVersion=MIDDLE&resourceVersionMatch=Exact",
	"resourceVersion=OLD&resourceVersionMatch=Exact", "resourceVersion=FUTURE&resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact",
	"resourceVersionMatch=Exact", "resourceVersion=OLD&resourceVersionMatch=Near", "limit=1", "limit=1&resourceVersion=MIDDLE&resourceVersionMatch=Exact",
	"limit=x", "continue=x", "labelSelector=%3D%3D", "labelSelector=app%3Da", "fieldSelector=metadata.name%3Da", "fieldSelector=data.k%3Dv",
	"sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
	"watch=1", "watch=1&resourceVersion=0", "watch=1&resourceVersion=MIDDLE", "watch=1&resourceVersion=NEW", "watch=1&resourceVersion=OLD",
	"watch=1&resourceVersion=x", "watch=1&resourceVersion=MIDDLE&resourceVersionMatch=Exact", "watch=1&resourceVersion=MIDDLE&labelSelector=app%3Da",
	"watch=1&sendInitialEvents=true", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
	"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=MIDDLE",
}

const semanticsPage, semanticsHead = "../docs/serve.md", "| `GET …/configmaps?` | kube-apiserver 1.37 | `exporter serve` |\n|---|---|---|\n"

// Both servers answer as the page's table of requests says.
func (p *past) semantics(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(p.kube.Config).CoreV1()
	namespace := "semantics"
	must[*corev1.Namespace](t)(client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	configs := client.ConfigMaps(namespace)
	object := func(name, app string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}}}
	}
	old := must[*corev1.ConfigMap](t)(configs.Create(t.Context(), object("a", "a"), metav1.CreateOptions{}))
	middle := must[*corev1.ConfigMap](t)(configs.Create(t.Context(), object("b", "b"), metav1.CreateOptions{}))
	ok(t, p.kube.Compact(t.Context(), atoi(t, middle.ResourceVersion)))
	changed := must[*corev1.ConfigMap](t)(configs.Update(t.Context(), object("a", "c"), metav1.UpdateOptions{}))
	ok(t, configs.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	list := must[*corev1.ConfigMapList](t)(configs.List(t.Context(), metav1.ListOptions{}))
	names := strings.NewReplacer("OLD", old.ResourceVersion, "MIDDLE", middle.ResourceVersion, "NEW", list.ResourceVersion, "FUTURE", "999999999")
	versions := strings.NewReplacer("@"+old.ResourceVersion, "@OLD", "@"+middle.ResourceVersion, "@MIDDLE", "@"+changed.ResourceVersion, "@CHANGED",
		"@"+list.ResourceVersion, "@NEW")
	path := "/api/v1/namespaces/" + namespace + "/configmaps?timeoutSeconds=2&"
	servers.Await(t, "the log of all", func() (bool, error) {
		return answered(p.ours(path, asObjects)) == answered(p.real(path, asObjects)), nil
	})
	servers.Await(t, "the API server to notice the compaction", func() (bool, error) {
		return p.real(path+names.Replace("resourceVersion=OLD&resourceVersionMatch=Exact"), asObjects).code == http.StatusGone, nil
	})
	rows := make([]string, len(semantics))
	var asked sync.WaitGroup // each watch takes its two seconds
	for i, q := range semantics {
		asked.Go(func() {
			real, ours := p.real(path+names.Replace(q), asObjects), p.ours(path+names.Replace(q), asObjects)
			theirs, own := versions.Replace(answered(real)), versions.Replace(answered(ours))
			if own == theirs {
				own = "the same"
			}
			rows[i] = fmt.Sprintf("| %s | %s | %s |\n", cmp.Or(strings.TrimPrefix("`"+q+"`", "``"), "nothing"), theirs, own)
		})
	}
	asked.Wait()
	table := semanticsHead + strings.Join(rows, "")
	page := string(must[[]byte](t)(os.ReadFile(semanticsPage)))
	before, rest, found := strings.Cut(page, semanticsHead)
	if !found {
		t.Fatal(semanticsPage + " has no table: " + semanticsHead)
	}
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	if made := before + table + rest; made != page {
		if t.Errorf("the table of %s (-args -update writes it) is now\n%s", semanticsPage, table); *update {
			ok(t, os.WriteFile(semanticsPage, []byte(made), 0o644))
		}
	}
}

func atoi(t *testing.T, text string) (n int64) {
	_, err := fmt.Sscan(text, &n)
	ok(t, err)
	return n
}

// answered returns an answer in short: the objects of a list, the events of a watch, or the error.
func answered(a answer) string {
	var list struct {
		Kind, Reason string
		Metadata     struct{ Continue string }
		Items        []struct {
			Metadata struct{ Name, ResourceVersion string }
		}
	}
	if json.Unmarshal(a.body, &list) == nil && list.Kind != "" {
		if list.Kind == "Status" {
			return strings.TrimSpace(fmt.Sprint(a.code, " ", list.Reason))
		}
		all := []string{}
		for _, o := range list.Items {
			all = append(all, o.Metadata.Name+"@"+o.Metadata.ResourceVersion)
		}
		if list.Metadata.Continue != "" {
			all = append(all, "continue")
		}
		return "list: " + cmp.Or(strings.Join(all, ", "), "none")
	}
	all := []string{}
	for line := range strings.Lines(string(a.body)) {
		var e struct {
			Type   string
			Object struct {
				Reason   string
				Code     int
				Metadata struct {
					Name, ResourceVersion string
					Annotations           map[string]string
				}
			}
		}
		switch err := json.Unmarshal([]byte(line), &e); {
		case err != nil:
		case e.Type == "ERROR":
			all = append(all, fmt.Sprintf("ERROR %d %s", e.Object.Code, e.Object.Reason))
		case e.Type == "BOOKMARK" && e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "":
			all = append(all, "BOOKMARK of the end")
		case e.Type != "BOOKMARK":
			all = append(all, e.Type+" "+e.Object.Metadata.Name+"@"+e.Object.Metadata.ResourceVersion)
		}
	}
	if a.code != http.StatusOK {
		return fmt.Sprint(a.code)
	}
	return "watch: " + cmp.Or(strings.Join(all, ", "), "none")
}
