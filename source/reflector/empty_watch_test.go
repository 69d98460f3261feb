package reflector_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// Watches that say nothing, of a resource without a watch cache, whose server sends no bookmarks.

var eventsResource = change.Resource{Version: "v1", Plural: "events", Kind: "Event", Namespaced: true}

func event(namespace, name string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: namespace, Name: "x"},
		Reason: "Tested", Message: name}
}

// kube-apiserver has no watch cache of events. Other resources are written and etcd is compacted, again and again, up to the position of
// the stream of events. The position moves nevertheless, and there is never a gap.
func TestAQuietStreamOfEventsOutrunsCompaction(t *testing.T) {
	t.Parallel()
	k := servers.Lend(t)
	client := kubernetes.NewForConfigOrDie(k.Config).CoreV1()
	quiet := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quiet"}} // the API server has events of its own in default
	must[*corev1.Namespace](t)(client.Namespaces().Create(t.Context(), quiet, metav1.CreateOptions{}))
	api := client.Events("quiet")
	must[*corev1.Event](t)(api.Create(t.Context(), event("quiet", "old"), metav1.CreateOptions{}))
	w := newWriter(t, k.Config, 12, []string{"default"})
	l, o := newLedger(), &quietObserver{}
	options := testOptions()
	options.Watermark = time.Second
	startStream(t, k.Config, change.NewStream(eventsResource, "quiet", "", ""), options, l, o)
	l.awaitStarted(t)
	for range 3 {
		w.run(10)
		now := revision(t, k)
		l.awaitPosition(t, strconv.FormatInt(now, 10))
		ok(t, k.Compact(context.Background(), now))
	}
	must[*corev1.Event](t)(api.Create(t.Context(), event("quiet", "short"), metav1.CreateOptions{}))
	ok(t, api.Delete(t.Context(), "short", metav1.DeleteOptions{}))
	l.awaitLog(t, "r old", "c short", "d short")
	_, controls := l.snapshot()
	if all := gaps(controls); len(all) > 0 {
		t.Errorf("gap records %+v, want none", all)
	}
	if o.was(change.StateExpired) || o.was(change.StateWaiting) {
		t.Errorf("the stream went through %v, want no 410 and no wait", o.states)
	}
}

const aWatch = 70 * time.Second // longer than one without bookmarks is asked for

func emptyWatch(version string) step { return step{want: "watch rv=" + version, lasts: aWatch} }

// quietly is what comes before a list: two empty watches, with the history verified around them.
func quietly(version string, newest string) []step {
	return steps(holds(version, newest), one(emptyWatch(version)), holds(version, newest), one(emptyWatch(version)))
}

func TestAnEmptyWatchMovesThePositionOnlyOnceAnotherOneConfirmsIt(t *testing.T) {
	a, b := "a a 90", "b b 99"
	l := resumed("100", a, b)
	play(t, l, plain(), steps(quietly("100", b), []step{
		{want: "list metadata limit=2", body: listed("200", "", a, b), doing: func() { expectPosition(t, l, "100") }},
		emptyWatch("100"),
		{want: "list metadata limit=2", body: listed("300", "", a, b), doing: func() { expectPosition(t, l, "200") }},
		emptyWatch("200"),
		{want: "list metadata limit=2", body: listed("400", "", a, b)},
		{want: "watch rv=300", hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "", "300")
		if all := gaps(l.controls); len(all) > 0 {
			t.Errorf("gap records %+v, want none", all)
		}
	})
}

// The stream knows that Events have no bookmarks. So the list is made while the watch is open, and the next watch begins at the list.
// The server may compact what is before that.
func TestEventsAreComparedWhileTheirWatchIsOpen(t *testing.T) {
	a := "a a 90"
	unchanged := func(version string) step { return step{want: "list metadata limit=2", body: listed(version, "", a)} }
	l := resumed("100", a)
	playEvents(t, l, steps(holds("100", a), []step{
		emptyWatch("100"), unchanged("200"),
		{want: "watch rv=200", lasts: aWatch, doing: func() { expectPosition(t, l, "200") }}, unchanged("300"),
		{want: "watch rv=300", body: added("x x 310"), lasts: aWatch}, // and nothing more
		{want: "list metadata limit=2", body: listed("400", "", a, "x x 310")},
		{want: "watch rv=400", body: deleted("x x 420"), hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "c x@310 d x@420", "400") // the position waits: more may have expired at 420
		if all := gaps(l.controls); len(all) > 0 {
			t.Errorf("gap records %+v, want none", all)
		}
	})
}

// The watch has one more timeout to deliver what the list shows. If it does not, there is a gap.
func TestAnOpenWatchOfEventsThatDoesNotDeliverWhatAListShows(t *testing.T) {
	a := "a a 90"
	differs := step{want: "list metadata limit=2", body: listed("200", "", a, "b b 150")}
	l := resumed("100", a)
	playEvents(t, l, steps(holds("100", a), []step{emptyWatch("100"), differs, emptyWatch("100"),
		{want: "list limit=2", body: listed("300", "", a, "b b 150")},
		{want: "watch rv=300", hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "c b@150?", "300")
		if all := gaps(l.controls); len(all) != 1 || all[0].Complete || all[0].From != "100" {
			t.Errorf("gap records %+v, want one that is not complete", all)
		}
	})
}

func expectPosition(t *testing.T, l *ledger, want change.ResourceVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.position != want {
		t.Errorf("position %s, want %s", l.position, want)
	}
}

// An object that was created and deleted before the list is not in it: the watch after it must still deliver it.
func TestWhatCameAndWentBeforeTheListIsEmitted(t *testing.T) {
	a, b := "a a 90", "b b 99"
	l := resumed("100", a, b)
	play(t, l, plain(), steps(quietly("100", b), []step{
		{want: "list metadata limit=2", body: listed("200", "", a, b)},
		{want: "watch rv=100", body: added("x x 150") + deleted("x x 160"), hang: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "c x@150 d x@160", "160") })
}

// A list shows what the watch does not deliver. The watch gets one more chance, then there is a gap.
func TestAWatchThatDoesNotDeliverWhatAListShowsIsAGap(t *testing.T) {
	a, b := "a a 90", "b b 99"
	for name, c := range map[string]struct {
		answer step
		after  []step
		want   string
		gap    bool
	}{
		"it tells": {step{want: "watch rv=100", body: added("c c 150"), hang: true}, nil, "c c@150", false},
		"it is empty again": {emptyWatch("100"), []step{
			{want: "list limit=2", body: listed("300", "next", a, "b b 170")},
			{want: "list continue=next limit=2", body: listed("300", "", "c c 150")},
			{want: "watch rv=300", hang: true}}, "u b@170? c c@150?", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", a, b)
			play(t, l, plain(), steps(quietly("100", b), []step{
				{want: "list metadata limit=2", body: listed("200", "next", a, b)},
				{want: "list metadata continue=next limit=2", body: listed("200", "", "c c 150")},
			}, holds("100", b), one(c.answer), c.after), func(t *testing.T, _ *script) {
				expect(t, l, c.want, map[bool]change.ResourceVersion{false: "150", true: "300"}[c.gap])
				if all := gaps(l.controls); len(all) > 0 != c.gap || c.gap && (all[0].Complete || all[0].From != "100") {
					t.Errorf("gap records %+v, want one: %t", all, c.gap)
				}
			})
		})
	}
}

// Where bookmarks come, nothing is ever listed, and watches are as long as they are set.
func TestBookmarksSpareTheList(t *testing.T) {
	l := resumed("100", "a a 99")
	o := plain()
	o.Quiet = time.Hour
	play(t, l, o, steps(holds("100", "a a 99"), []step{
		emptyWatch("100")}, holds("120", "a a 99"), []step{ // wakes the watch cache
		{want: "watch rv=100", body: bookmark("130"), lasts: aWatch},
		{want: "watch rv=130", body: bookmark("140"), lasts: 2 * o.WatchTimeout},
		{want: "watch rv=140", hang: true},
	}), func(t *testing.T, s *script) {
		expect(t, l, "", "140")
		for i, want := range map[int]string{2: "40 to 62", 5: "40 to 62", 6: "600 to 1200"} {
			var lo, hi int
			_, _ = fmt.Sscanf(want, "%d to %d", &lo, &hi)
			if got := s.timeouts[i]; got < lo || got > hi {
				t.Errorf("watch %d is asked for %d s, want %s", i, got, want)
			}
		}
	})
}

// The server answers 410, and is where the log is: nothing was missed, so there is nothing to emit.
func TestA410WhereNothingHappenedSinceIsNoGap(t *testing.T) {
	recovering := plain()
	recovering.Recovery = testOptions().Recovery
	newest := holds("100", "a a 99")[1:] // a recovery looks first whether it is the same history
	for name, c := range map[string]struct {
		options reflector.Options
		first   []step
		list    string
	}{"compared": {plain(), nil, "list limit=2"}, "recovered": {recovering, newest, "list metadata limit=2"}} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", "a a 99")
			play(t, l, c.options, steps(holds("100", "a a 99"), []step{{want: "watch rv=100", status: 410, body: gone("")}}, c.first, []step{
				{want: c.list, body: listed("100", "", "a a 99")},
				{want: "watch rv=100", body: modified("a a 101"), hang: true},
			}), func(t *testing.T, _ *script) {
				expect(t, l, "u a@101", "101")
				if all := gaps(l.controls); len(all) > 0 {
					t.Errorf("gap records %+v, want none", all)
				}
			})
		})
	}
}
