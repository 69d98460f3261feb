package reflector_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

func streamingLists(o *reflector.Options) { o.Streaming = reflector.NewStreamingLists(true) }

const streamed = "watch match=NotOlderThan initial=true"

// initialEnd is the bookmark that ends a streaming list.
func initialEnd(version string) string {
	return strings.Replace(bookmark(version), `"}}}`, `","annotations":{"k8s.io/initial-events-end":"true"}}}}`, 1)
}

func TestStreamingLists(t *testing.T) {
	once := step{want: streamed, body: added("a a 10") + initialEnd("200"), hang: true}
	playAll(t, []scripted{
		{name: "comes in any order, with changes in between, and goes on as the watch", options: streamingLists,
			steps: []step{{want: streamed,
				body: added("c c 30") + added("a a 10") + added("b b 20") + modified("a a 160") + added("d d 170") + deleted("d d 180") +
					initialEnd("200") + modified("b b 210") + bookmark("250"), hang: true}},
			want: "r c@30 r a@10 r b@20 u a@160? r d@170 d d@170? u b@210 at 250, snapshot-begin, snapshot-end 3"},
		// What differs is emitted. A name that has another uid is deleted before it is created. What the list does not have is deleted at its
		// end.
		{name: "has the effect of pages after a 410", log: resumed("100", "a a 10", "b b 20", "c c 99", "e e 30"),
			options: streamingLists,
			steps: steps(holds("100", "c c 99"), expired("100"), []step{
				{want: streamed, body: added("e q 140") + added("c c 150") + added("a a 10") + initialEnd("200"), hang: true}}),
			want: "d e@30? c e@140? u c@150? d b@20? at 200, gap 100-200 incomplete 4 inferred 1 c 1 u 2 d"},
		// Nothing was emitted of it, nothing is deleted, and the history is verified.
		{name: "ends older than the log", log: resumed("100", "a a 99", "b b 20"), options: streamingLists,
			steps: steps(holds("100", "a a 99"),
				expired("100"), []step{{want: streamed, body: added("a a 99") + initialEnd("90"), hang: true}}, holds("100", "a a 99"),
				[]step{{want: "watch rv=100", hang: true}}), want: "at 100"},
		{name: "is cut in the middle of the first snapshot, and goes on in pages", options: streamingLists, steps: []step{
			{want: streamed, body: added("c c 30") + added("a a 10") + added("b b 20")[:80], cut: true},
			{want: "list limit=2", body: listed("200", "next", "a a 10", "b b 20")},
			{want: "list continue=next limit=2", cut: true},
			{want: "list continue=next limit=2", body: listed("200", "", "d d 40")},
			{want: "watch rv=200", hang: true},
		}, want: "r c@30 r a@10 r b@20 r d@40 d c@30? at 200, snapshot-begin, snapshot-end 3"},
		// A list that an earlier process interrupted, or that follows a restore of etcd, is read in pages. A streaming list could not be
		// distinguished from one of an older state.
		{name: "does not follow an interrupted list", log: resumed("", "a a 10", "c c 30"), options: streamingLists,
			steps: []step{
				{want: "list limit=2", body: listed("200", "", "a a 10", "b b 20", "c c 30")},
				{want: "watch rv=200", hang: true},
			}, want: "r b@20 at 200, snapshot-begin, snapshot-end 3"},
		{name: "does not follow a restore", log: resumed("1000", "a a 10", "b b 980"), options: streamingLists, steps: []step{
			{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
			{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
			{want: "list limit=2", body: listed("905", "", "a a 10", "b b 880")},
			{want: "watch rv=905", hang: true},
		}, want: "u b@880? at 905, gap 1000-905 incomplete 1 inferred 1 u"},
		// They exist nevertheless.
		{name: "has an object that can't be read", log: resumed("100", "a a 10", "b b 20", "c c 30"), options: streamingLists,
			steps: steps(holds("100", "c c 30"), expired("100"), []step{{want: streamed, hang: true,
				body: added("a a 10") + strings.Replace(added("x x 150"), `"name"`, `"y"`, 1) + initialEnd("200")}}),
			want: "at 200, gap 100-200 incomplete, 1 dead letters"},
		// Their watch is short, since it has no bookmarks, so it is not the one that a streaming list has begun with.
		{name: "is followed by another watch if it is of Events", stream: change.NewStream(eventsResource, "", "", ""),
			options: streamingLists,
			steps:   []step{once, {want: "watch rv=200", hang: true}}, want: "r a@10 at 200, snapshot-begin, snapshot-end 1"},
		{name: "of metadata, with selectors", stream: change.NewStream(configMaps, "", "app=a", "metadata.name!=x"),
			options: func(o *reflector.Options) { streamingLists(o); o.MetadataOnly = true },
			steps: []step{{hang: true, body: once.body,
				want: "watch metadata match=NotOlderThan initial=true fields=metadata.name!=x labels=app=a"}},
			want: "r a@10 at 200, snapshot-begin, snapshot-end 1"},
	})
}

// Whatever a server sends in the place of a streaming list, pages follow, and no deletion is inferred from it. Where the server has no
// streaming lists, the next list of the resource is read in pages at once.
func TestWithoutAStreamingListPagesAreRead(t *testing.T) {
	invalid := func(status int, reason string) step { return step{status: status, body: failure(status, reason)} }
	for name, c := range map[string]struct {
		answer  step
		refused bool          // the server has no streaming lists
		after   time.Duration // pages are read; 0: it depends
	}{
		"400":                        {invalid(400, "BadRequest"), true, 0},
		"403":                        {invalid(403, "Forbidden"), true, 0},
		"405":                        {invalid(405, "MethodNotAllowed"), true, 0},
		"422":                        {invalid(422, "Invalid"), true, 0},
		"422 as an event":            {step{body: errorEvent(failure(422, "Invalid"))}, true, 0},
		"500 as an event":            {step{body: errorEvent(failure(500, "InternalError"))}, false, 0},
		"429":                        {step{status: 429, after: "2", body: failure(429, "TooManyRequests")}, false, 0},
		"401":                        {invalid(401, "Unauthorized"), false, 0},
		"410":                        {step{status: 410, body: gone("")}, false, 0},
		"cut":                        {step{body: added("c c 150"), cut: true}, false, 0},
		"ended early":                {step{body: added("c c 150")}, false, 0},
		"silent":                     {step{hang: true}, true, 0},
		"silent after objects":       {step{body: added("a a 10") + added("c c 150"), hang: true}, true, 0},
		"bookmarks that end nothing": {step{body: added("a a 10") + bookmark("120"), hang: true}, true, 0},
		"events from now on":         {step{body: modified("c c 150"), lasts: 9 * time.Second, later: modified("c c 151"), hang: true}, true, 10 * time.Second},
		"silent after two objects":   {step{body: added("a a 10"), lasts: 9 * time.Second, later: added("c c 150"), hang: true}, true, 19 * time.Second},
		"objects until its timeout":  {step{body: added("a a 10"), lasts: 9 * time.Second}, true, 0},
		"an older object":            {step{body: added("c c 98") + initialEnd("200"), hang: true}, false, 0},
		"an object that the log had": {step{body: added("d d 90") + initialEnd("200"), hang: true}, false, 0},
		"an older deletion":          {step{body: deleted("c c 98") + initialEnd("200"), hang: true}, false, 0},
		"a deletion without a name":  {step{body: strings.Replace(deleted("c c 150"), `"name"`, `"x"`, 1), hang: true}, false, 0},
	} {
		c.answer.want = streamed
		next := []step{{want: streamed, body: added("a a 10") + added("c c 199") + added("b b 20") + initialEnd("300"), hang: true}}
		if c.refused {
			next = []step{{want: "list limit=2", body: listed("300", "", "a a 10", "b b 20", "c c 199")}, {want: "watch rv=300", hang: true}}
		}
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 10", "b b 20", "c c 99"),
			options: func(o *reflector.Options) { streamingLists(o); o.WatchTimeout = 4 * time.Second },
			steps: steps(holds("100", "c c 99"), expired("100"), one(c.answer), []step{
				{want: "list limit=2", body: listed("200", "", "a a 10", "b b 20", "c c 199")}}, expired("200"), next),
			inspect: func(t *testing.T, s *script) {
				if c.after > 0 && s.wait(4) != c.after {
					t.Errorf("pages were read after %s, want %s", s.wait(4), c.after)
				}
				if got := says(s.log); strings.Contains(got, "d ") || !strings.HasSuffix(got, "u c@199?") || s.log.position != "300" {
					t.Errorf("the log says %q, at %s", got, s.log.position)
				}
			}}})
	}
}

// The end of a streaming list never comes, while objects are created. These don't extend it. The objects of a list that is slow
// do.
func TestObjectsThatAreCreatedDoNotExtendAStreamingList(t *testing.T) {
	created := func(n int) string { return added(fmt.Sprintf("n%d %c %d", n, 'a'+n%26, 200+n)) }
	play(t, scripted{options: streamingLists, steps: []step{
		{want: streamed, drips: created},
		{want: "list metadata limit=1", body: listed("201", "", "n1 b 201")},
		{want: "list limit=2", body: listed("220", "", "n0 a 200", "n1 b 201")},
		{want: "watch rv=220", hang: true},
	}, inspect: func(t *testing.T, s *script) {
		if took := s.times[2].Sub(s.times[0]); took > 30*time.Second {
			t.Errorf("pages were read after %s", took)
		}
	}})
	old := func(n int) string {
		switch {
		case n < 100:
			return added(fmt.Sprintf("n%03d %c %d", n, 'a'+n%26, 10+n))
		case n == 100:
			return initialEnd("300")
		}
		return errorEvent(gone(""))
	}
	play(t, scripted{options: func(o *reflector.Options) { streamingLists(o); o.WatchTimeout = time.Hour }, steps: []step{
		{want: streamed, drips: old}, {want: "list metadata limit=1", body: listed("250", "", "n000 a 10")}, {want: streamed, hang: true}},
		inspect: func(t *testing.T, s *script) {
			if len(s.log.changes) != 100 || s.log.position != "300" {
				t.Errorf("%d changes, position %s, want 100 at 300", len(s.log.changes), s.log.position)
			}
		}})
}

// Half an hour after it was refused a streaming list is asked for again.
func TestAStreamingListIsAskedForAgain(t *testing.T) {
	for lasts, again := range map[time.Duration][]step{
		29 * time.Minute: {{want: "list limit=2", body: listed("300", "", "a a 10")}, {want: "watch rv=300", hang: true}},
		31 * time.Minute: {{want: streamed, body: added("a a 10") + initialEnd("300"), hang: true}},
	} {
		play(t, scripted{options: func(o *reflector.Options) { streamingLists(o); o.Quiet = time.Hour }, steps: append([]step{
			{want: streamed, status: 422, body: failure(422, "Invalid")},
			{want: "list limit=2", body: listed("200", "", "a a 10")},
			{want: "watch rv=200", body: bookmark("210"), lasts: lasts, later: errorEvent(gone(""))},
		}, again...), want: "r a@10 at 300, snapshot-begin, snapshot-end 1, gap 210-300 incomplete"})
	}
}

// behind is a log that remembers since when what it is sent may have waited.
type behind struct {
	*ledger
	since map[string]time.Time // by name, zero if it is no longer than a moment ago
}

func (b *behind) Send(ctx context.Context, item change.Item) error {
	if item.Change != nil {
		b.since[item.Change.Name] = item.Behind
	}
	return b.ledger.Send(ctx, item)
}

// What happens while a streaming list is sent comes after it, and may have happened at any time since the list began.
func TestWhatFollowsAStreamingListMayHaveWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{want: streamed, body: added("a a 10"), lasts: 5 * time.Second, later: initialEnd("200") + added("b b 201"), hang: true}}}
		l, began := &behind{newLedger(), map[string]time.Time{}}, time.Now()
		o := plain()
		streamingLists(&o)
		runFor(t, s, l, configMaps, o)
		if !l.since["a"].IsZero() || !l.since["b"].Equal(began) {
			t.Errorf("waited since %v; want a not to have waited, and b since %s", l.since, began)
		}
	})
}

// identified answers who it is after a while, and is a script for all else.
type identified struct {
	*script
	after time.Duration
}

func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != apiclient.KubeSystem {
		return i.script.RoundTrip(r)
	}
	time.Sleep(i.after)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(`{"metadata":{"name":"kube-system","uid":"first","resourceVersion":"1"}}`))}, nil
}

// Without a setting lists are streaming lists where the server is far away, but for Events.
func TestListsOfAFarServerAreStreamingLists(t *testing.T) {
	pages := []step{{want: "list limit=2", body: listed("200", "", "a a 10")}, {want: "watch rv=200", hang: true}}
	stream := []step{{want: streamed, body: added("a a 10") + initialEnd("200"), hang: true}}
	for name, c := range map[string]struct {
		resource change.Resource
		trip     time.Duration
		steps    []step
	}{
		"near":        {configMaps, 19 * time.Millisecond, pages},
		"far":         {configMaps, 20 * time.Millisecond, stream},
		"far, Events": {eventsResource, 20 * time.Millisecond, pages},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, l, o := &script{steps: c.steps}, newLedger(), plain()
				o.Streaming = reflector.NewStreamingLists(false)
				runFor(t, identified{s, c.trip}, l, c.resource, o)
				s.check(t)
				expect(t, l, "r a@10 at 200")
			})
		})
	}
}

// runFor runs a stream for ten seconds.
func runFor(t *testing.T, api http.RoundTripper, l interface {
	reflector.Inventory
	reflector.Output
}, resource change.Resource, o reflector.Options) {
	t.Helper()
	server := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://far", Transport: api, QPS: -1}))
	if _, says := api.(identified); says {
		server.Client().Expect("first")
		mustDo(t, server.Client().SameCluster(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := reflector.New(change.NewStream(resource, "", "", ""), server.Client(), o, l, l, &quietObserver{}, slog.New(slog.DiscardHandler))
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	cancel()
	<-done
}

// The watch of a streaming list ends as another watch does.
func TestTheWatchOfAStreamingListEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end   step
		after []step
	}{
		"410": {step{later: errorEvent(gone("")), lasts: time.Second}, []step{{want: streamed, body: added("a a 10") + added("b b 220") + initialEnd("300"), hang: true}}},
		"410, and another server refuses": {step{later: errorEvent(gone("")), lasts: time.Second}, []step{{want: streamed, status: 422, body: failure(422, "Invalid")},
			{want: "list limit=2", body: listed("300", "", "a a 10")}, {want: "watch rv=300", hang: true}}},
		"timeout": {step{lasts: 161 * time.Second}, []step{{want: "watch rv=210", hang: true}}},
		"cut":     {step{cut: true, lasts: time.Second}, steps(holds("210", "a a 10"), []step{{want: "watch rv=210", hang: true}})},
	} {
		c.end.want, c.end.body = streamed, added("a a 10")+initialEnd("200")+bookmark("210")
		playAll(t, []scripted{{name: name,
			options: func(o *reflector.Options) { streamingLists(o); o.WatchTimeout = 80 * time.Second },
			steps:   append(one(c.end), c.after...), inspect: func(t *testing.T, s *script) {
				if s.log.position < "210" || strings.Contains(says(s.log), "d ") {
					t.Errorf("the log says %q, at %s", says(s.log), s.log.position)
				}
			}}})
	}
}
