package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/audit"
	"kubecdc/internal/sqlitefile"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// whoSize returns the approximate number of writes of each test, and the kinds of logs. KUBECDC_WHO_WRITES=8000 makes more.
func whoSize(t *testing.T) (writes int, logs []string) {
	text := os.Getenv("KUBECDC_WHO_WRITES")
	if text == "" {
		return 500, []string{"sqlite"}
	}
	_, err := fmt.Sscan(text, &writes)
	must(t, err)
	return writes, []string{"sqlite", "kafka", "postgres"}
}

// Five people and two controllers write at random, while a webhook changes their objects. A tenth of the audit events is lost, and
// the others come twice, late and in any order. Every author that is named as certain is right, and most authors are certain.
func TestWhoMadeEachChange(t *testing.T) {
	for name, test := range map[string]whoCase{
		"policy":                   {level: "Metadata", policy: true, least: 0.93, always: true}, // most retried writes, and deletecollections and evictions, can't be exact
		"Metadata":                 {level: "Metadata"},
		"RequestResponse":          {level: "RequestResponse", always: true},
		"ignored":                  {level: "Metadata", policy: true, hidden: ignoredWrites},
		"ignored RequestResponse":  {level: "RequestResponse", hidden: ignoredWrites},
		"selected":                 {level: "Metadata", policy: true, hidden: selectedWrites},
		"selected RequestResponse": {level: "RequestResponse", hidden: selectedWrites},
		"gaps":                     {level: "Metadata", policy: true, gaps: true},
		"gaps RequestResponse":     {level: "RequestResponse", gaps: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !test.always && os.Getenv("KUBECDC_WHO_WRITES") == "" {
				t.Skip("make who runs it")
			}
			t.Parallel()
			test.run(t)
		})
	}
}

// whoCase is what the API server records, and what hides writes from the log.
type whoCase struct {
	level  string
	policy bool
	least  float64 // minimum share of exact answers among the changes whose events arrived
	hidden hiddenWrites
	gaps   bool // no exporter runs meanwhile, and some of what it misses is compacted
	always bool // make test runs it too
}

// hiddenWrites are a merge patch of an object, and settings by which the log may have no change of it.
type hiddenWrites struct{ setting, value, patch, other string }

var (
	ignoredWrites = hiddenWrites{"KUBECDC_IGNORE_FIELDS", "configmaps:metadata.annotations.noise,deployments.apps:metadata.annotations.noise," +
		"widgets.example.com:metadata.annotations.noise", `{"metadata":{"annotations":{"noise":"r%d"}}}`, `{"metadata":{"annotations":{"noise":null}}}`}
	selectedWrites = hiddenWrites{"KUBECDC_LABEL_SELECTOR", "hidden!=yes", `{"metadata":{"labels":{"hidden":"yes"}}}`, `{"metadata":{"labels":{"hidden":null}}}`}
)

func (c *whoCase) run(t *testing.T) {
	seed, least := rand.Uint64(), c.least
	t.Logf("seed %d", seed)
	writes, logs := whoSize(t)
	if writes < 5000 {
		least -= 0.07 // chance has more influence on few writes
	}
	w := newWhoWorld(t, seed, c.level, logs...)
	if c.policy {
		w.installPolicy(t)
	}
	r := newRequesters(t, w.kube)
	r.admission, r.lies, r.hidden = w.installAdmission(t), c.policy || c.level == "RequestResponse", c.hidden
	for _, l := range w.logs {
		if c.hidden.setting != "" {
			l.Env[c.hidden.setting] = c.hidden.value
		}
	}
	r.makeAccounts()
	if binary := os.Getenv("KUBECDC_TEST_CONTROLLERS"); binary != "" {
		startControllers(t, w.kube, binary, "garbage-collector-controller", "namespace-controller")
		r.controlled = true
	}
	w.start(t)
	r.run(seed, writes)
	for part := range uint64(3) {
		if c.gaps {
			w.miss(t, func() { r.run(seed+1+part, writes/4) })
			r.run(seed+11+part, writes/4)
		}
	}
	if r.controlled {
		r.awaitControllers()
	}
	w.awaitComplete(t)
	w.deliver(t, false)
	asked := map[string]*who.Requests{}
	for _, l := range w.logs {
		var err error
		asked[l.name], err = who.ReadRequests(t.Context(), l.open(t), &sinks.Objects{}, time.Time{})
		must(t, err)
	}
	w.deliver(t, true) // late events reach readers that have read the rest
	arrived := w.arrived(t)
	t.Logf("the webhook was asked %d times, and stamped %d requests", r.admission.asked.Load(), r.admission.stamped.Load())
	for _, l := range w.logs {
		t.Run(l.name, func(t *testing.T) {
			l.judge(t, newVerdict(r, arrived), asked[l.name]).report(t, least)
		})
	}
}

// judge asks for the author of each change.
func (l *whoLog) judge(t *testing.T, v *whoVerdict, q *who.Requests) *whoVerdict {
	t.Helper()
	log := l.open(t)
	must(t, q.Refresh(t.Context()))
	late, err := timeline.LateSince(t.Context(), log, time.Time{})
	must(t, err)
	q.ReadLate, q.Skips, q.Ignores = late.Has, late.Skips, late.Ignores
	for _, r := range auditRecords(t, log, audit.Query{}) {
		v.records[r.AuditID] = r
	}
	must(t, log.Changes(t.Context(), sinks.Query{}, func(l *sinks.Logged) error {
		answer := q.Who(l)
		if answer != nil && !strings.HasPrefix(l.Namespace, "kube-") && !strings.HasPrefix(l.Name, "mark") {
			v.add(l, answer)
		}
		return nil
	}))
	return v
}

// A user asks the command line who changed objects and who made a difference between two versions. Other questions are for all
// changes of a user, and for their consequences.
func TestTheCommandsSayWho(t *testing.T) {
	t.Parallel()
	w := newWhoWorld(t, 0, "Metadata", "sqlite")
	w.installPolicy(t)
	w.courier.honest = true
	w.start(t)
	log := w.logs[0]
	env := log.With("KUBECDC_AUDIT_TOKEN_FILE", "", "KUBECDC_AUDIT_FILES", "") // a command takes no events
	if code, out := command(t, env, "history", "--by", "alice"); code != 2 || !strings.Contains(out, "no audit events") {
		t.Errorf("without audit events --by ends with %d:\n%s", code, out)
	}
	r := newRequesters(t, w.kube)
	q := &requester{r, rand.New(rand.NewPCG(1, 1)), 0, "default", 0}
	owner := q.create("alice", Deployments, "web", nil)
	q.awaitCached(Deployments, "web")
	q.patch("bob", Deployments, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	q.awaitCached(Deployments, "web")
	q.patch("alice", Deployments, "web", `{}`)
	q.patch("erin as root", Deployments, "web", `{"spec":{"replicas":%d}}`, "scale")
	q.awaitCached(Deployments, "web")
	patched, err := q.client("bob", Deployments).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	part := sample(ConfigMaps, "web-part", 0, 0)
	part.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: owner.GetUID()}})
	_, err = q.client(operator, ConfigMaps).Create(t.Context(), part, metav1.CreateOptions{})
	must(t, err)
	q.awaitCached(ConfigMaps, "web-part")
	must(t, q.delete("alice", Deployments, "web"))
	must(t, q.delete(collector, ConfigMaps, "web-part"))
	w.awaitComplete(t)
	w.deliver(t, false)

	said := func(args ...string) (all []string) {
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
		if got := said(test.args...); !slices.Equal(got, test.want) {
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
	log.viewSays(t, "default/web", "c alice, u bob, u erin as root, d alice")
}

// awaitCached waits until the API server's cache has an object's newest version. A write would be retried if it found an older one
// there.
func (w *requester) awaitCached(kind Kind, name string) {
	Await(w.t, "the API server's cache", func() (bool, error) {
		newest, err := w.client(operator, kind).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		cached, err := w.client(operator, kind).Get(w.t.Context(), name, metav1.GetOptions{ResourceVersion: "0"})
		return err == nil && cached.GetResourceVersion() == newest.GetResourceVersion(), nil // the object may not be there yet
	})
}

// viewSays compares the view changes_by of a deployment with the wanted text.
func (w *whoLog) viewSays(t *testing.T, key, want string) {
	t.Helper()
	file, err := sqlitefile.Share(t.Context(), w.File)
	must(t, err)
	defer file.Close()
	var got string
	const question = `select group_concat(op || ' ' || username || coalesce(' as ' || impersonated, ''), ', ' order by version) from changes_by
		where resource = 'deployments.apps' and namespace || '/' || name = ?`
	must(t, file.DB().QueryRowContext(t.Context(), question, key).Scan(&got))
	if got != want {
		t.Errorf("the view has %s, want %s", got, want)
	}
}

// The exporter ignores a field, and whoever asks does not have the setting: the log says what it lacks. The first of several writers, whose
// update was ignored, did not certainly make the change, also not the one after a restart without the setting.
func TestTheLogSaysWhatTheSettingsIgnore(t *testing.T) {
	t.Parallel()
	w := newWhoWorld(t, 0, "Metadata", "sqlite", "postgres", "kafka")
	w.installPolicy(t)
	w.courier.honest = true
	for _, l := range w.logs {
		l.Env["KUBECDC_IGNORE_FIELDS"] = "deployments.apps:spec.replicas"
	}
	w.start(t)
	q := &requester{newRequesters(t, w.kube), rand.New(rand.NewPCG(1, 1)), 0, "default", 0}
	write := func(user string, kind Kind, name, patch string) {
		t.Helper()
		q.patch(user, kind, name, patch)
		q.awaitCached(kind, name)
	}
	for kind, name := range map[Kind]string{Deployments: "web", ConfigMaps: "web"} {
		q.create("alice", kind, name, nil)
		q.awaitCached(kind, name)
	}
	write("bob", Deployments, "web", `{"spec":{"replicas":%d}}`)
	write("carol", Deployments, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	write("carol", ConfigMaps, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	write("bob", Deployments, "web", `{"spec":{"replicas":%d}}`)
	w.awaitComplete(t)
	for _, l := range w.logs {
		l.exporter.stop(t)
		l.Env = l.With("KUBECDC_IGNORE_FIELDS", "")
	}
	w.courier.bringToNobody()
	w.start(t)
	write("dave", Deployments, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	write("dave", ConfigMaps, "web", `{"metadata":{"annotations":{"by":"r%d"}}}`)
	w.awaitComplete(t)
	w.deliver(t, false)
	for _, l := range w.logs {
		env := l.With("KUBECDC_AUDIT_TOKEN_FILE", "", "KUBECDC_AUDIT_FILES", "")
		for _, ask := range [][]string{{"history", "-n", "default"}, {"tail", "--lines", "30", "--follow=false", "-n", "default"}} {
			var said []string
			for line := range strings.Lines(succeeds(t, env, append(ask, "deploy,cm", "-o", "json")...)) {
				var e query.Event
				must(t, json.Unmarshal([]byte(line), &e))
				if e.Name == "web" && e.By != nil {
					said = append(said, e.Resource+" "+e.Op+" "+string(e.By.Grade)+" "+e.By.Text(nil))
				}
			}
			slices.Sort(said)
			t.Logf("%s %s: %q", l.name, ask[0], said)
			exact := slices.DeleteFunc(said, func(s string) bool { return !strings.Contains(s, " exact ") })
			want := []string{"configmaps c exact alice", "configmaps u exact carol", "configmaps u exact dave", "deployments.apps c exact alice"}
			if !slices.Equal(exact, want) {
				t.Errorf("%s %s: %q are exact, want %q", l.name, ask[0], exact, want)
			}
		}
	}
}
