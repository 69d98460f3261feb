package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/internal/sqlitefile"
	"kubecdc/query"
	"kubecdc/rbac"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// whoWorld is an API server that writes its audit events to a file, and the settings of an exporter.
type whoWorld struct {
	*World
	events string
}

func newWhoWorld(t *testing.T, level string) *whoWorld {
	t.Helper()
	dir := t.TempDir()
	w := &whoWorld{&World{Prefix: "e2e", File: filepath.Join(dir, "log.db")}, filepath.Join(dir, "audit.log")}
	policy, token := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte(auditToken), 0o600))
	must(t, os.WriteFile(policy, fmt.Appendf(nil, `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":%q}]}`, level), 0o600))
	var err error
	w.Kube, err = servers.StartKubernetes(context.Background(), servers.KubernetesOptions{Users: writerUsers(),
		APIServerFlags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + w.events}})
	must(t, err)
	t.Cleanup(func() { _ = w.Kube.Stop() })
	w.Env = map[string]string{"KUBECONFIG": w.Kube.Kubeconfig, "KUBECDC_CLUSTER": "e2e", "KUBECDC_RESOURCES": "configmaps,deployments.apps,widgets.example.com",
		"KUBECDC_SINK": "sqlite", "KUBECDC_CHECKPOINT": "sqlite:" + w.File, "KUBECDC_WATERMARK_INTERVAL": "1s",
		"KUBECDC_AUDIT_TOKEN_FILE": token}
	return w
}

// installPolicy installs the policy that has the API server tell the object and its version, and waits until it is in force.
func (w *whoWorld) installPolicy(t *testing.T) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(w.Kube.Config)
	for i, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		text, err := json.Marshal((&rbac.Account{Name: "who", Namespace: "default"}).AuditPolicy()[i])
		must(t, err)
		o := &unstructured.Unstructured{}
		must(t, o.UnmarshalJSON(text))
		gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		_, err = client.Resource(gvr).Create(context.Background(), o, metav1.CreateOptions{})
		must(t, err)
	}
	Await(t, "the policy to be in force", func() (bool, error) {
		o := sample(ConfigMaps, "", 0, 0)
		o.SetGenerateName("probe-")
		_, err := client.Resource(ConfigMaps.GVR).Namespace("kube-public").Create(context.Background(), o, metav1.CreateOptions{})
		text, _ := os.ReadFile(w.events)
		return bytes.Contains(text, []byte("/kubecdc-object")), err
	})
}

// deliver brings the events to the exporter, as a proxy between would that forgets and mixes up: a tenth is lost, a tenth comes twice, and
// they come in any order. It returns the ids of those that came.
func (w *whoWorld) deliver(t *testing.T, e *Exporter, random *rand.Rand) map[string]bool {
	return w.bring(t, e, random, func() int { return []int{0, 0, 2, 2, 1}[min(4, random.IntN(20))] })
}

// bring brings each event so many times.
func (w *whoWorld) bring(t *testing.T, e *Exporter, random *rand.Rand, times func() int) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(w.events)
	must(t, err)
	var events []string
	arrived := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		for range times() {
			events, arrived[at([]byte(line), "auditID")] = append(events, line), true
		}
	}
	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for batch := range slices.Chunk(events, 300) {
		body := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + strings.Join(batch, ",") + `]}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Listen+"/audit", strings.NewReader(body))
		must(t, err)
		request.Header.Set("Authorization", "Bearer "+auditToken)
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("the exporter answers %s", answer.Status)
		}
	}
	return arrived
}

// whoVerdict counts answers.
type whoVerdict struct {
	arrived, lost map[query.Grade]int
	wrong         map[query.Grade]int
	examples      []string
}

func (v *whoVerdict) add(t *testing.T, r *requesters, l *sinks.Logged, w *query.Who, arrived map[string]bool) {
	id := r.truth(l)
	if _, known := r.by[id]; !known && id != "" { // a deployment's first replicas are no id
		id = ""
	}
	if id == "" {
		if !strings.HasPrefix(l.Name, "mark") {
			t.Errorf("%s %s %s %s: nobody of the test did it\n%s\n%s", l.Op, l.Stream.ID(), l.Name, l.ResourceVersion, l.Before, l.After)
		}
		return
	}
	user := r.by[id]
	named := w.Is(user) || user == "erin as root" && w.Is("erin")
	came := arrived[id] && (r.again[id] == "" || arrived[r.again[id]])
	if came {
		v.arrived[w.Grade]++
	} else {
		v.lost[w.Grade]++
	}
	if came && w.Grade == query.OneOf && len(v.examples) < 8 {
		v.examples = append(v.examples, fmt.Sprintf("%s %s %s is by %s (%s): %s %v", l.Op, l.Name, l.ResourceVersion, user, id, w.Text(nil), w.AuditIDs))
	}
	switch {
	case w.Grade == query.Exact && !named, w.Grade == query.OneOf && !named && came, came && (w.Grade == query.Unknown || w.Grade == query.Manager):
		t.Errorf("%s %s %s %s is by %s (%s, arrived: %v): %s", l.Op, l.Stream.ID(), l.Name, l.ResourceVersion, user, id, came, w.Text(nil)+" "+string(w.Grade)+fmt.Sprint(w.AuditIDs))
	case w.Grade == query.Probable && !named:
		v.wrong[w.Grade]++
	}
}

// whoWrites is about how many writes each test makes; KUBECDC_WHO_WRITES=5000 for more.
func whoWrites(t *testing.T) int {
	n := 500
	if text := os.Getenv("KUBECDC_WHO_WRITES"); text != "" {
		_, err := fmt.Sscan(text, &n)
		must(t, err)
	}
	return n
}

// Five people and two controllers write at random, and a tenth of the audit events is lost: who is said to have made a change for certain
// did, and that is most who made one.
func TestWhoMadeEachChange(t *testing.T) {
	for name, test := range map[string]struct {
		level  string
		policy bool
		least  float64 // of the changes whose events arrived: how many are exact
	}{
		"policy":          {"Metadata", true, 0.9}, // of some writes the server tries again, and of deletecollections, nothing can be
		"Metadata":        {"Metadata", false, 0},
		"RequestResponse": {"RequestResponse", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := testWho(t, test.level, test.policy)
			all := 0
			for _, n := range v.arrived {
				all += n
			}
			t.Logf("arrived: %v, lost: %v, probable and wrong: %v\n%s", v.arrived, v.lost, v.wrong, strings.Join(v.examples, "\n"))
			if all == 0 || float64(v.arrived[query.Exact]) < test.least*float64(all) {
				t.Errorf("%d of %d changes are exact", v.arrived[query.Exact], all)
			}
		})
	}
}

func testWho(t *testing.T, level string, policy bool) *whoVerdict {
	w := newWhoWorld(t, level)
	InstallWidgets(t, w.Kube.Config)
	if policy {
		w.installPolicy(t)
	}
	e := StartExporter(t, "the exporter", w.Env)
	e.AwaitReady(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := newRequesters(t, w.Kube)
	r.run(seed, whoWrites(t))
	w.AwaitComplete(t, NewWriter(t, w.Kube.Config, seed, nil), []Kind{ConfigMaps, Deployments, Widgets})
	arrived, log := w.deliver(t, e, rand.New(rand.NewPCG(seed, 100))), w.openFile(t)
	q, err := query.ReadRequests(t.Context(), log, &sinks.Objects{}, time.Time{})
	must(t, err)
	v := &whoVerdict{arrived: map[query.Grade]int{}, lost: map[query.Grade]int{}, wrong: map[query.Grade]int{}}
	must(t, log.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		if by := q.Who(l); by != nil && l.Namespace == "default" {
			v.add(t, r, l, by, arrived)
		}
		return nil
	}))
	return v
}

// A user asks the command line who it was: in the history of objects, of all that somebody did, in what others caused, and between two
// versions.
func TestTheCommandsSayWho(t *testing.T) {
	t.Parallel()
	w := newWhoWorld(t, "Metadata")
	InstallWidgets(t, w.Kube.Config)
	w.installPolicy(t)
	e := StartExporter(t, "the exporter", w.Env)
	e.AwaitReady(t)
	env := w.With("KUBECDC_AUDIT_TOKEN_FILE", "") // a command takes no events
	if code, out := command(t, env, "history", "--by", "alice"); code != 2 || !strings.Contains(out, "no audit events") {
		t.Errorf("without audit events --by ends with %d:\n%s", code, out)
	}
	r := newRequesters(t, w.Kube)
	q := &requester{r, rand.New(rand.NewPCG(1, 1)), 0}
	owner := q.create("alice", Deployments, "web", nil)
	q.patch("bob", Deployments, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	q.patch("alice", Deployments, "web", `{}`)
	q.patch("erin as root", Deployments, "web", `{"spec":{"replicas":%d}}`, "scale")
	patched, err := r.on("bob", Deployments).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	part := sample(ConfigMaps, "web-part", 0, 0)
	part.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: owner.GetUID()}})
	_, err = r.on(operator, ConfigMaps).Create(t.Context(), part, metav1.CreateOptions{})
	must(t, err)
	must(t, q.delete("alice", Deployments, "web"))
	must(t, q.delete(collector, ConfigMaps, "web-part"))
	w.AwaitComplete(t, NewWriter(t, w.Kube.Config, 1, nil), []Kind{ConfigMaps, Deployments, Widgets})
	w.bring(t, e, rand.New(rand.NewPCG(1, 2)), func() int { return 1 })

	told := func(args ...string) (all []string) {
		for line := range strings.Lines(succeeds(t, env, append(args, "-o", "json")...)) {
			var e query.Event
			must(t, json.Unmarshal([]byte(line), &e))
			text := e.Op + " " + e.Name + " " + string(e.By.Grade) + " " + e.By.Text(nil)
			if e.By.Because != nil {
				text += " " + e.By.Because.String()
			}
			all = append(all, text)
		}
		return all
	}
	cascade := "d web-part exact " + collector + " because of deployments.apps default/web, deleted by alice"
	for _, test := range []struct {
		args, want []string
	}{
		{[]string{"history", "deploy/web", "-n", "default"}, []string{"c web exact alice", "u web exact bob", "u web exact erin as root", "d web exact alice"}},
		{[]string{"history", "--by", "alice", "--since", "1h"}, []string{"c web exact alice", "d web exact alice", cascade}},
		{[]string{"history", "--by", operator}, []string{"c web-part exact " + operator}},
		{[]string{"history", "--by", "root", "-A"}, []string{"u web exact erin as root"}},
		{[]string{"tail", "--since", "1h", "--follow=false", "--where", `by == "bob"`}, []string{"u web exact bob"}},
		{[]string{"tail", "-n", "20", "--follow=false", "--by", "bob"}, []string{"u web exact bob"}},
	} {
		if got := told(test.args...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.args, got, test.want)
		}
	}
	if out := mustRun(t, env, "history", "deploy/web", "-n", "default"); !strings.Contains(out, "  by alice (writer)\n") {
		t.Errorf("the history is\n%s", out)
	}
	code, out := command(t, env, "diff", "--from", owner.GetResourceVersion(), "--to", patched.GetResourceVersion(), "deploy/web", "--incomplete")
	if code != 1 || !strings.Contains(out, "  by bob, erin as root\n") || !strings.Contains(out, "# audit events are there from ") {
		t.Errorf("diff ends with %d:\n%s", code, out)
	}
	w.viewSays(t, "default/web", "c alice, u bob, u erin as root, d alice")
}

// viewSays compares what the view changes_by has of a deployment.
func (w *whoWorld) viewSays(t *testing.T, key, want string) {
	t.Helper()
	file, err := sqlitefile.Share(t.Context(), w.File)
	must(t, err)
	defer file.Close()
	var got string
	const look = `select group_concat(op || ' ' || user || coalesce(' as ' || impersonated, ''), ', ' order by version) from changes_by
		where resource = 'deployments.apps' and namespace || '/' || name = ?`
	must(t, file.DB().QueryRowContext(t.Context(), look, key).Scan(&got))
	if got != want {
		t.Errorf("the view has %s, want %s", got, want)
	}
}
