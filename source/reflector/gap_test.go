package reflector_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

func contextWith(r *http.Request, cut <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

var configMaps = change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}

func testOptions() reflector.Options {
	o := reflector.DefaultOptions()
	o.FreshTries = 0
	o.PageSize = 7 // many pages, even of few objects
	o.Recovery = recoverAt(10_000, 10_000)
	return o
}

// bodyBytes lets recoveries hold all bodies, with every other seed, or read most of them again.
func bodyBytes(seed uint64) int64 { return int64(seed%2) * 2000 }

// recoverAt recovers with a limiter that begins at one rate and goes up to another.
func recoverAt(start, most float64) *reflector.Recovery {
	r := reflector.NewRecovery(start, most, slog.New(slog.DiscardHandler))
	r.Parallel, r.MaxRevisions = 4, 100_000
	return r
}

// start runs a stream until the test ends or stop is called.
func start(t testing.TB, config *rest.Config, options reflector.Options, l *ledger) (stop func() error) {
	t.Helper()
	_, stop = startOn(t, config, options, l, &quietObserver{})
	return stop
}

// writer makes random changes of configmaps.
type writer struct {
	t          testing.TB
	random     *rand.Rand
	client     kubernetes.Interface
	namespaces []string
	names      int
	alive      map[string]bool
	made       int
}

func newWriter(t testing.TB, config *rest.Config, seed uint64, namespaces []string) *writer {
	t.Helper()
	return &writer{t: t, random: rand.New(rand.NewPCG(seed, 1)), client: kubernetes.NewForConfigOrDie(config),
		namespaces: namespaces, names: 5, alive: map[string]bool{}}
}

func (w *writer) run(n int) {
	w.t.Helper()
	for range n {
		w.one()
	}
}

func (w *writer) one() {
	w.t.Helper()
	ns := w.namespaces[w.random.IntN(len(w.namespaces))]
	name := fmt.Sprintf("n%d", w.random.IntN(w.names))
	key := ns + "/" + name
	w.made++
	cm := configMap(name, map[string]string{"app": string(rune('a' + w.random.IntN(2)))}) // in and out of a selection
	cm.Data["v"] = strconv.Itoa(w.made)
	api, ctx := w.client.CoreV1().ConfigMaps(ns), context.Background()
	var err error
	switch {
	case !w.alive[key]:
		_, err = api.Create(ctx, cm, metav1.CreateOptions{})
		w.alive[key] = true
	case w.random.IntN(3) == 0:
		err = api.Delete(ctx, name, metav1.DeleteOptions{})
		w.alive[key] = false
	default:
		_, err = api.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatalf("change %s: %v", key, err)
	}
}

func revision(t testing.TB, k *servers.Kubernetes) int64 {
	t.Helper()
	r, err := k.Revision(context.Background())
	mustDo(t, err)
	return r
}

// logged describes one change in a form that both the log and etcd have.
func logged(op string, key string, revision string) string { return op + " " + key + " @" + revision }

// etcdSays is what etcd itself says happened to configmaps after the revision.
func etcdSays(t testing.TB, k *servers.Kubernetes, after int64) []string {
	t.Helper()
	events, err := k.EtcdHistory(context.Background(), "/registry/configmaps/", after+1)
	mustDo(t, err)
	var all []string
	for _, e := range events {
		all = append(all, logged(e.Op, strings.TrimPrefix(e.Key, "/registry/configmaps/"), strconv.FormatInt(e.Revision, 10)))
	}
	return all
}

func logSays(changes []change.Change) []string {
	var all []string
	for _, c := range changes {
		if c.Op != change.Read {
			all = append(all, logged(c.Op.String(), c.Key(), string(c.ResourceVersion)))
		}
	}
	return all
}

func equalLogs(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("change %d of %d: the log says %q, etcd says %q\nlog:  %v\netcd: %v", i, len(want), g, w, near(got, i), near(want, i))
		}
	}
}

func near(all []string, i int) []string { return all[max(0, min(i-3, len(all))):min(len(all), i+5)] }

func gaps(controls []change.Control) (all []change.Gap) {
	for _, c := range controls {
		if c.Type == change.ControlGap {
			all = append(all, *c.Gap)
		}
	}
	return all
}

// The scenario of the mission: stopped, 300 changes made, the API server restarted, started again.
func TestGapOf300ChangesIsRecoveredCompletely(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	w := newWriter(t, k.Config, 7, []string{"default", "kube-public"})
	w.names = 20
	w.run(40)
	l := newLedger()
	stop := start(t, k.Config, testOptions(), l)
	from := revision(t, k)
	l.awaitPosition(t, strconv.FormatInt(from, 10))
	_ = stop()

	w.run(300)
	mustDo(t, k.RestartAPIServer(context.Background()))
	to := revision(t, k)
	start(t, k.Config, testOptions(), l)
	l.awaitPosition(t, strconv.FormatInt(to, 10))

	changes, controls := l.snapshot()
	want := etcdSays(t, k, from)
	equalLogs(t, logSays(changes), want)
	all := gaps(controls)
	if len(all) != 1 || !all[0].Complete || all[0].Recovered != 300 || all[0].Inferred != 0 {
		t.Fatalf("gap records %+v, want one, complete, of 300 recovered changes", all)
	}
	for _, c := range changes {
		if c.Op != change.Delete && !strings.Contains(string(c.After), string(`"resourceVersion":"`+c.ResourceVersion+`"`)) {
			t.Fatalf("the body of %s @%s is of another revision: %s", c.Key(), c.ResourceVersion, c.After)
		}
	}
	t.Logf("%d of 300 changes recovered in %d ms by %d requests over %d revisions", all[0].Recovered, all[0].ElapsedMs, all[0].Requests, to-from)
}

// Random histories have gaps at random places. One stream has all objects, and one has a selector, which objects enter, leave and enter
// again. Each log equals etcd's own history, event for event.
func TestRandomGapsEqualEtcdsHistory(t *testing.T) {
	t.Parallel()
	histories := 40
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_HISTORIES")); err == nil {
		histories = n
	}
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("%d histories, KUBECDC_TEST_SEED=%d", histories, seed)
	k := servers.Lend(t)
	w := newWriter(t, k.Config, seed, []string{"default", "kube-public", "kube-system"})
	streams := []*randomStream{{labels: ""}, {labels: "app=a"}}
	options := testOptions() // the options of both streams
	options.Recovery.BodyBytes = bodyBytes(seed)
	for _, s := range streams {
		s.gateway, s.log = newGateway(t, k.Config), newLedger()
		startStream(t, s.gateway.config(), change.NewStream(configMaps, "", s.labels, ""), options, s.log, &quietObserver{})
		s.log.awaitPosition(t, strconv.FormatInt(revision(t, k)-1, 10))
		s.begin = position(s.log)
	}
	for range histories {
		w.run(w.random.IntN(6)) // live
		for _, s := range streams {
			s.gateway.hold()
		}
		w.run(w.random.IntN(30)) // unseen
		for _, s := range streams {
			s.gateway.release(true)
		}
		to := revision(t, k)
		for _, s := range streams {
			s.log.awaitPosition(t, strconv.FormatInt(to, 10))
		}
	}
	for _, s := range streams {
		s.judge(t, k)
	}
}

// randomStream is a stream of all ConfigMaps, or of those with a label, which moves.
type randomStream struct {
	labels  string
	gateway *gateway
	log     *ledger
	begin   int64
}

func (s *randomStream) judge(t *testing.T, k *servers.Kubernetes) {
	t.Helper()
	changes, controls := s.log.snapshot()
	equalLogs(t, logSays(changes), selectedSays(t, k, s.labels, s.begin))
	recovered, requests := 0, 0
	for _, gap := range gaps(controls) {
		if !gap.Complete || gap.Inferred > 0 {
			t.Errorf("not complete: %+v", gap)
		}
		recovered, requests = recovered+gap.Recovered, requests+gap.Requests
	}
	t.Logf("labels %q: %d changes, of them %d recovered in %d gaps by %d requests", s.labels, len(changes), recovered, len(gaps(controls)), requests)
}

// selectedSays returns what happened after the revision, as etcd says, to ConfigMaps that a selector selects. They are created in the
// selection, or enter it, and leave it.
func selectedSays(t *testing.T, k *servers.Kubernetes, selector string, after int64) (all []string) {
	t.Helper()
	events := must[[]servers.EtcdEvent](t)(k.EtcdHistory(context.Background(), "/registry/configmaps/", 1))
	selects, selected := must[labels.Selector](t)(labels.Parse(selector)), map[string]bool{}
	for _, e := range events {
		key := strings.TrimPrefix(e.Key, "/registry/configmaps/")
		before, op := selected[key], "u"
		if selected[key] = e.Op != "d" && selects.Matches(labels.Set(decoded(t, e.Value).Labels)); before && !selected[key] {
			op = "d"
		} else if !before {
			op = "c"
		}
		if (before || selected[key]) && e.Revision > after {
			all = append(all, logged(op, key, strconv.FormatInt(e.Revision, 10)))
		}
	}
	return all
}

// decoded is a ConfigMap as etcd has it.
func decoded(t *testing.T, stored []byte) *corev1.ConfigMap {
	t.Helper()
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, nil)
	mustDo(t, err)
	return o.(*corev1.ConfigMap)
}

func position(l *ledger) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _ := strconv.ParseInt(string(l.position), 10, 64)
	return n
}
