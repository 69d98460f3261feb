package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/test/hostile"
	"kubecdc/test/servers"
)

// Somebody creates, updates and deletes objects with all names and contents that the API server accepts. This happens while the
// exporter runs, and while it is down and the API server is restarted. Then the checkpoint is lost. Every change of every object is
// in the log, or named in a dead letter. No command prints anything that a terminal obeys.
func TestSlowHostileObjectsInKafka(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testHostileObjects(t, NewWorld(t))
}

func TestSlowHostileObjectsInPostgres(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	testHostileObjects(t, postgresWorld(t, servers.Lend(t), servers.PostgresOptions{}))
}

// hostileKinds have names that may be almost anything, and contents that may be anything. ClusterRoles get the names that are too
// long.
var (
	hostileKinds = []Kind{Roles, Widgets}
	clusterRoles = kindOf("rbac.authorization.k8s.io", "v1", "clusterroles")
)

func testHostileObjects(t *testing.T, w *World) {
	w.Env["KUBECDC_RESOURCES"], w.Env["KUBECDC_PROOF_INTERVAL"] = Resources(append([]Kind{clusterRoles}, hostileKinds...)), "1s"
	w.Env["KUBECDC_LEASE_DURATION"] = "20s" // the command status needs this to see that an exporter has ended
	InstallWidgets(t, w.Kube.Config)
	v := newVandal(t, w.Kube.Config)
	v.createAll()
	writer := w.Writer(t, hostileKinds)
	e := StartExporter(t, "of hostile objects", w.Env).AwaitReady(t)
	w.AwaitComplete(t, writer, hostileKinds)
	from := v.change(2)
	w.AwaitComplete(t, writer, hostileKinds)
	e.Kill()
	v.change(3)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "after a gap", w.Env)
	w.AwaitComplete(t, writer, hostileKinds)
	e.Kill()
	dropCheckpoint(t, w)
	e = StartExporter(t, "after the loss of the checkpoint", w.Env).AwaitReady(t)
	v.change(5)
	log := w.AwaitComplete(t, writer, hostileKinds)
	e.awaitLogged(t, "the checkpoint is rebuilt")
	Judge(t, w.Kube, log, w.Prefix, hostileKinds).Demand(t, 0)
	wantNoGapButRecovered(t, log)
	w.awaitProofs(t)
	w.wantTooLongNamed(t, log)
	v.commands(w, from)
	wantPrintable(t, "the log of the exporter", e.Tail(1<<20))
	e.stop(t)
}

// On a pipe each change is one line of JSON. The checkpoint is a file.
func TestHostileObjectsInAPipe(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	InstallWidgets(t, k.Config)
	v := newVandal(t, k.Config)
	v.createAll()
	env := map[string]string{"KUBECONFIG": k.Kubeconfig, "KUBECDC_CLUSTER": "e2e", "KUBECDC_RESOURCES": Resources(hostileKinds),
		"KUBECDC_SINK": "stdout", "KUBECDC_CHECKPOINT": "sqlite:" + filepath.Join(t.TempDir(), "checkpoint.db")}
	writer := NewWriter(t, k.Config, 1, hostileKinds)
	log := &Log{}
	for n, name := range []string{"the first", "the second"} {
		e := StartExporter(t, name, env).AwaitReady(t)
		v.change(2 + n)
		log.Records = append(log.Records, endPipe(t, e, writer, hostileKinds)...)
		parsed, _ := ParseLines(t, e.out.Bytes(), "pipe")
		log.Controls = append(log.Controls, parsed.Controls...)
	}
	Judge(t, k, log, "pipe", hostileKinds).Demand(t, 0)
}

// neighbour is a ClusterRole in the collection of those whose names are too long.
const neighbour = "neighbour"

// vandal writes objects with plain requests, since clients refuse some of the names.
type vandal struct {
	t       *testing.T
	client  *http.Client
	host    string
	objects []vandalised
	changes int
}

type vandalised struct {
	kind Kind
	name string
	body []byte
	live bool
}

func newVandal(t *testing.T, config *rest.Config) *vandal {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	host, _, err := rest.DefaultServerUrlFor(config)
	must(t, err)
	return &vandal{t: t, client: client, host: strings.TrimSuffix(host.String(), "/")}
}

// createAll creates all objects that the API server accepts. It refuses numbers that no float64 can hold.
func (v *vandal) createAll() {
	v.t.Helper()
	const rbac = "rbac.authorization.k8s.io/v1"
	for _, name := range hostile.Names() {
		v.create(Roles, name.Text, hostile.Object(rbac, "Role", "default", name.Text, "", "", "{}"), name.What, false)
	}
	for i, content := range hostile.Contents() {
		name := "content-" + hostile.Version(i)
		refused := strings.HasPrefix(content.What, "numbers ")
		if content.What == "objects in objects" { // the API server has a limit of 34 s, and a busy machine needs longer for more
			content.Text = strings.Repeat(`{"d":`, 2500) + "1" + strings.Repeat("}", 2500)
		}
		v.create(Widgets, name, hostile.Object("example.com/v1", "Widget", "default", name, "", "", content.Text), content.What, refused)
	}
	for _, name := range hostile.TooLong() {
		v.create(clusterRoles, name.Text, hostile.Object(rbac, "ClusterRole", "", name.Text, "", "", "{}"), name.What, false)
	}
	v.create(clusterRoles, neighbour, hostile.Object(rbac, "ClusterRole", "", neighbour, "", "", "{}"), "nothing odd", false)
}

func (v *vandal) create(kind Kind, name string, body []byte, what string, mayFail bool) {
	v.t.Helper()
	status, answer := v.do(http.MethodPost, kind, "", body)
	if mayFail && status == http.StatusBadRequest {
		return
	}
	if status != http.StatusCreated {
		v.t.Fatalf("create %s with %s: %d %.500s", kind.ID(), what, status, answer)
	}
	v.objects = append(v.objects, vandalised{kind, name, body, true})
}

// change updates each object, deletes every n-th, and recreates those that were deleted before. It returns a resourceVersion from
// before.
func (v *vandal) change(n int) (before string) {
	v.t.Helper()
	for i := range v.objects {
		o := &v.objects[i]
		v.changes++
		method, name, body, want := http.MethodPatch, o.name, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, v.changes), http.StatusOK
		switch {
		case !o.live:
			method, name, body, want = http.MethodPost, "", o.body, http.StatusCreated
		case i%n == 0:
			method, body = http.MethodDelete, nil
		}
		status, answer := v.do(method, o.kind, name, body)
		if status != want {
			v.t.Fatalf("%s %s %.60q: %d %.500s", method, o.kind.ID(), o.name, status, answer)
		}
		if o.live = method != http.MethodDelete; before == "" {
			var made struct {
				Metadata struct{ ResourceVersion string }
			}
			_ = json.Unmarshal(answer, &made)
			before = made.Metadata.ResourceVersion
		}
	}
	return before
}

// do repeats a request if the API server has no time for it, since deeply nested objects take seconds. An earlier attempt may have
// succeeded after all.
func (v *vandal) do(method string, kind Kind, name string, body []byte) (status int, answer []byte) {
	v.t.Helper()
	clock := servers.StartClock()
	for attempt := 0; !clock.Late(); attempt++ {
		status, answer = v.try(method, kind, name, body)
		switch {
		case status == http.StatusConflict && attempt > 0 && method == http.MethodPost:
			return http.StatusCreated, answer
		case status == http.StatusNotFound && attempt > 0 && method == http.MethodDelete:
			return http.StatusOK, answer
		case status < http.StatusInternalServerError:
			return status, answer
		}
	}
	return status, answer
}

func (v *vandal) try(method string, kind Kind, name string, body []byte) (status int, answer []byte) {
	v.t.Helper()
	address := v.host + "/apis/" + kind.GVR.Group + "/" + kind.GVR.Version
	if kind != clusterRoles {
		address += "/namespaces/default"
	}
	address += "/" + kind.GVR.Resource
	if name != "" {
		address += "/" + url.PathEscape(name)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, address, bytes.NewReader(body))
	must(v.t, err)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := v.client.Do(r)
	must(v.t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	must(v.t, err)
	return response.StatusCode, answer
}

// awaitProofs waits until a new proof finds each kind equal.
func (w *World) awaitProofs(t *testing.T) {
	t.Helper()
	after := map[change.StreamID]int{}
	count := func(results map[change.StreamID]int) {
		for _, c := range w.controls(t) {
			if c.Type == change.ControlProof && c.Proof.Result == change.ProofEqual {
				results[c.Stream]++
			}
		}
	}
	count(after)
	Await(t, "proofs that the log is equal", func() (bool, error) {
		now := map[change.StreamID]int{}
		count(now)
		return now[Roles.Stream()] > after[Roles.Stream()] && now[Widgets.Stream()] > after[Widgets.Stream()], nil
	})
}

// wantTooLongNamed demands a dead letter for each object whose name is too long, and that other objects of the collection are in
// the log.
func (w *World) wantTooLongNamed(t *testing.T, log *Log) {
	t.Helper()
	events, err := w.Kube.EtcdHistory(t.Context(), clusterRoles.Prefix, log.SnapshotEnd(clusterRoles.ID())+1)
	must(t, err)
	last := change.VersionOf(uint64(events[len(events)-1].Revision))
	log = w.awaitMarks(t, map[change.StreamID]change.ResourceVersion{clusterRoles.Stream(): last})
	var letters [][]byte
	for _, r := range log.Dead {
		letters = append(letters, r.Value)
	}
	if w.Kafka == nil {
		conn := servers.Connect(t, w.Postgres.URL)
		rows, _ := conn.Query(t.Context(), "select body from kubecdc_log.dead_letters where stream = $1", clusterRoles.ID())
		letters, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		must(t, err)
	}
	deletes, logged := map[string]int{}, 1 // the first list read it
	for _, e := range events {
		if name := strings.TrimPrefix(e.Key, clusterRoles.Prefix); name == neighbour {
			logged++
		} else if e.Op == "d" {
			deletes[name]++
		}
	}
	reported := 0 // reported deletes. The log never had the object, so a gap's record needs no deletes within the gap
	for _, name := range hostile.TooLong() {
		found, deleted := 0, 0
		for _, letter := range letters {
			if bytes.Contains(letter, []byte(`"name":"`+name.Text+`"`)) {
				found++
				if bytes.Contains(letter, []byte(`"DELETED"`)) {
					deleted++
				}
			}
		}
		if reported += deleted; found == deleted {
			t.Errorf("%d dead letters, %d of the name of %s, %d of its %d deletes", len(letters), found, name.What, deleted, deletes[name.Text])
		}
	}
	if len(deletes) > 0 && reported == 0 {
		t.Errorf("no dead letter tells of a delete, and there were %v", deletes)
	}
	if got := log.ByKey(w.Prefix, clusterRoles)[neighbour]; len(got) != logged {
		t.Errorf("the log has %d records of the neighbour, and there were %d", len(got), logged)
	}
}

// commands runs each command that prints objects.
func (v *vandal) commands(w *World, from string) {
	v.t.Helper()
	changed := []string{"tail", "--since", "1h", "--follow=false", "--incomplete"}
	commands := [][]string{{"status"}, {"verify"}, {"verify", "-o", "json"}, {"signals", "list"},
		{"state", "--at", "now", "role", "-o", "wide"}, {"history", "role"}, {"state", "--at", "now", "roles", "-o", "yaml"}, {"state", "--at", "now", "roles", "-o", "json"},
		{"state", "--at", "now", "widgets", "-o", "yaml", "--full"}, {"state", "--at", "now", "widgets", "-o", "json", "--full"},
		{"diff", "--from", from, "--to", "now", "roles"}, {"diff", "--from", from, "--to", "now", "widgets", "-o", "json"},
		changed, append(changed, "-o", "diff"), append(changed, "-o", "wide"), append(changed, "-o", "name"), append(changed, "-o", "json"), append(changed, "-o", "yaml"),
		append(changed, "--where", "after.nothing > 1")}
	for i, name := range hostile.Names() {
		if !strings.Contains(name.Text, "\x00") && i%6 == 0 { // an argument can't have one, and each command takes a second
			commands = append(commands, []string{"history", "roles", "-n", "default", "--", name.Text})
		}
	}
	for _, args := range commands {
		var out, errs bytes.Buffer
		c := Command(v.t, w.With("KUBECDC_LOG_FORMAT", "text"), args...)
		c.Stdout, c.Stderr = &out, &errs
		_ = c.Run()
		code := c.ProcessState.ExitCode()
		what := fmt.Sprintf("exporter %.60q", args)
		if code != 0 && !(args[0] == "diff" && code == 1) || out.Len() == 0 && args[0] != "signals" && !strings.Contains(what, "--where") {
			v.t.Errorf("%s ends with %d and %d bytes: %.2000s", what, code, out.Len(), errs.Bytes())
		}
		wantPrintable(v.t, what, out.String())
		wantPrintable(v.t, what+" on stderr", errs.String())
		if args[len(args)-1] == "json" || strings.Contains(what, "json") {
			for d := json.NewDecoder(&out); d.More(); {
				var any json.RawMessage
				if err := d.Decode(&any); err != nil {
					v.t.Errorf("%s prints no JSON: %v", what, err)
					break
				}
			}
		}
	}
}

// wantPrintable demands that no line has characters that a terminal obeys, and that no line is forged.
func wantPrintable(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }); i >= 0 {
		t.Errorf("%s prints %.80q", what, text[i:])
	}
	if strings.Contains(text, "\n12:00:00 deleted") {
		t.Errorf("%s prints a false line", what)
	}
}
