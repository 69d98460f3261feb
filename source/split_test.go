package source_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/source"
	"kubecdc/test/servers"
)

// A stream that leaves namespaces to streams of their own, and one that such streams were merged into.

func restOf(except ...string) *change.Stream {
	s := change.NewStream(configMaps, "", "", "")
	s.Except = except
	return s
}

// other puts what the script answers into another namespace.
func other(text string) string {
	return strings.ReplaceAll(text, `"namespace":"default"`, `"namespace":"other"`)
}

func TestTheRestOfASplitStreamAsksForNoOtherNamespace(t *testing.T) {
	l := newLedger()
	const fields = " fields=metadata.namespace!=a,metadata.namespace!=b"
	playStream(t, restOf("a", "b"), l, plain(), []step{
		{want: "list limit=2" + fields, body: listed("100", "next", "a a 10", "b b 20")},
		{want: "list continue=next limit=2" + fields, body: listed("100", "", "c c 30")},
		{want: "watch rv=100" + fields, body: modified("a a 101"), stay: true},
	}, func(t *testing.T, _ *script) { expect(t, l, "r a@10 r b@20 r c@30 u a@101", "101") })
}

// The log has all of namespace other up to 120, and of the others up to 110; a crash after any item changes nothing.
func TestWhatWasMergedIsNotToldAgain(t *testing.T) {
	for crash := range 9 {
		l := resumed("100", "a a 99")
		l.objects["other/x"] = [2]string{uid("d"), "118"}
		l.floors = change.Floors{change.AllOthers: "110", "other": "120"}
		for _, l.failAt = range []int{crash, 0} {
			from := max(l.position, "100")
			begin := []step{{want: "list metadata limit=1", body: listed("200", "", "a a 99")}}
			if key := newest(l); key != "" {
				begin = append(begin, step{want: "list metadata rv=" + l.objects[key][1] + " match=Exact fields=metadata.name=" + key[strings.Index(key, "/")+1:], status: 410, body: gone("")})
			}
			events := []struct {
				version int
				line    string
			}{
				{105, modified("a a 105")}, // merged
				{106, added("gone e 106")}, {107, deleted("gone e 107")},
				{111, modified("a a 111")},
				{115, other(added("x d 115"))}, {116, `{"type":"ADDED","object":{"metadata":{"name":"odd","namespace":"other","resourceVersion":"116"}}}` + "\n"},
				{118, other(modified("x d 118"))}, {119, bookmark("119")},
				{121, other(modified("x d 121"))}, {122, modified("a a 122")},
			}
			body, position := "", 0
			position, _ = strconv.Atoi(from)
			for _, e := range events {
				if e.version > position {
					body += e.line
				}
			}
			play(t, l, plain(), append(begin, step{want: "watch rv=" + from, body: body, stay: true}), nil)
			if l.failAt == 0 {
				expect(t, l, "u a@111 u x@121 u a@122", "122")
				if len(l.raws) > 0 || l.floors != nil {
					t.Errorf("crash %d: dead letters %q, floors %v", crash, l.raws, l.floors)
				}
			}
			l.failAt, l.sent = 0, 0
		}
	}
}

// newest is the object that a stream asks for to see whether the history is the log's.
func newest(l *ledger) (key string) {
	for k, o := range l.objects {
		if key == "" || change.CompareVersions(o[1], l.objects[key][1]) > 0 {
			key = k
		}
	}
	return key
}

// After a 410, what was merged is compared with a list: all of it, and the record says that it is not complete.
func TestAGapBelowFloorsIsComparedAndSaid(t *testing.T) {
	l := resumed("100", "a a 99")
	l.objects["other/x"] = [2]string{uid("d"), "118"}
	l.floors = change.Floors{change.AllOthers: "110", "other": "120"}
	options := testOptions()
	options.StreamingLists = source.StreamingOff
	play(t, l, options, []step{
		{want: "list metadata limit=1", body: listed("200", "", "a a 99")},
		{want: "list metadata rv=118 match=Exact fields=metadata.name=x", status: 410, body: gone("")},
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=7", body: listed("200", "", "a a 105")},
		{want: "watch rv=200", stay: true},
	}, func(t *testing.T, _ *script) {
		expect(t, l, "u a@105? d x@118?", "200")
		if g := onlyGap(t, l); g.Complete || g.From != "100" || g.To != "200" || l.floors != nil {
			t.Errorf("gap %+v, floors %v", g, l.floors)
		}
	})
}

// The stream of namespace other was merged before its first list was complete: it has told of x and of one that is gone.
func TestANamespaceThatWasNeverListedIsListedWhenItIsMerged(t *testing.T) {
	l := resumed("100", "a a 99")
	l.objects["other/x"], l.objects["other/gone"] = [2]string{uid("d"), "80"}, [2]string{uid("e"), "81"}
	l.floors = change.Floors{"other": ""}
	list := strings.Replace(listed("120", "", "a a 105", "x d 80", "y f 119"), `"name":"x","namespace":"default"`, `"name":"x","namespace":"other"`, 1)
	list = strings.Replace(list, `"name":"y","namespace":"default"`, `"name":"y","namespace":"other"`, 1)
	play(t, l, plain(), steps(holds("120", "a a 99"), []step{
		{want: "list limit=2", status: 410, body: gone("next")},
		{want: "list limit=2", body: list},
		{want: "watch rv=100", body: modified("a a 105") + added("b b 110") + other(added("y f 119")) + other(deleted("x d 121")), stay: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "r y@119 d gone@81? u a@105 c b@110 d x@121", "121")
		if l.floors != nil || len(gaps(l.controls)) > 0 {
			t.Errorf("floors %v, gaps %v", l.floors, gaps(l.controls))
		}
	})
}

// Two streams with one budget, as in one process: the namespaces that are split off are recovered by their own.
func TestRandomGapsOfASplitStreamEqualEtcdsHistory(t *testing.T) {
	k, err := servers.StartKubernetes(context.Background(), servers.KubernetesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWriter(t, k.Config, seed, []string{"default", "kube-public", "kube-system", "kube-node-lease"})
	var gateways []*gateway // each expires one watch
	options := testOptions()
	logs := map[string]*ledger{"": newLedger(), "default": newLedger(), "kube-public": newLedger()}
	for namespace, l := range logs {
		stream := restOf("default", "kube-public")
		if namespace != "" {
			stream = change.NewStream(configMaps, namespace, "", "")
		}
		g := newGateway(t, k.Config)
		gateways = append(gateways, g)
		startStream(t, g.config(), stream, options, l, &quietObserver{})
	}
	begin := map[string]int64{}
	for namespace, l := range logs {
		l.await(t, "the first list", func() bool { return l.position != "" })
		begin[namespace] = position(l)
	}
	for range 25 {
		w.run(w.random.IntN(6)) // live
		for _, g := range gateways {
			g.hold()
		}
		w.run(w.random.IntN(40)) // unseen
		for _, g := range gateways {
			g.release(true)
		}
		to := revision(t, k)
		for _, l := range logs {
			l.awaitPosition(t, strconv.FormatInt(to, 10))
		}
	}
	for namespace, l := range logs {
		changes, controls := l.snapshot()
		var want []string
		for _, line := range etcdSays(t, k, begin[namespace]) {
			in, _, _ := strings.Cut(line[2:], "/")
			if in == namespace || namespace == "" && logs[in] == nil {
				want = append(want, line)
			}
		}
		equalLogs(t, logSays(changes), want)
		requests := 0
		for _, gap := range gaps(controls) {
			if !gap.Complete || gap.Inferred > 0 {
				t.Errorf("%q: not complete: %+v", namespace, gap)
			}
			requests += gap.Requests
		}
		t.Logf("%q: %d changes, %d gaps recovered by %d requests", namespace, len(want), len(gaps(controls)), requests)
	}
}

func TestWhatCantBeSplitIsSaidWithItsFix(t *testing.T) {
	client, err := source.NewClient(servers.Kube(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := source.NewDiscovery(client).Served(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ resources, split, says string }{
		{"*", "pods@a,deployments.apps@b,deployments.apps@c", ""},
		{"deployments.v1.apps", "deployments.apps@b", ""},
		{"deployments.apps", "deployments.v1.apps@b", ""},
		{"pods,*.example.com", "widgets.example.com@a", ""}, // may be installed later
		{"*", "nodes@a", "belong to no namespace"},
		{"configmaps,secrets", "pods@a", "add pods to KUBECDC_RESOURCES (now configmaps,secrets)"},
		{"configmaps", "widgets.example.com@a", "serves no"},
		{"*", "events.events.k8s.io@a", "write events@a"},
		{"*", "pods", "write RESOURCE@NAMESPACE"},
		{"*", "*.apps@a", "write RESOURCE@NAMESPACE"},
		{"*", "deployments.apps@a,deployments.v1.apps@a", "leave one out"},
	} {
		patterns, err := source.ParsePatterns(strings.Split(tc.resources, ","))
		if err != nil {
			t.Fatal(err)
		}
		selected, _ := source.Select(patterns, served)
		splits, err := source.ParseSplits(strings.Split(tc.split, ","))
		if err == nil {
			err = source.CheckSplits(splits, patterns, selected, served)
		}
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s of %s: %v, want %q", tc.split, tc.resources, err, tc.says)
		}
	}
}
