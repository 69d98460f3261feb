package reflector_test

import (
	"context"
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
		mustDo(t, k.Compact(context.Background(), now))
	}
	must[*corev1.Event](t)(api.Create(t.Context(), event("quiet", "short"), metav1.CreateOptions{}))
	mustDo(t, api.Delete(t.Context(), "short", metav1.DeleteOptions{}))
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

func TestEmptyWatches(t *testing.T) {
	a, b := "a a 90", "b b 99"
	unchanged := func(version string) step { return step{want: "list metadata limit=2", body: listed(version, "", a)} }
	both := func(version string) step { return step{want: "list metadata limit=2", body: listed(version, "", a, b)} }
	differs := step{want: "list metadata limit=2", body: listed("200", "next", a, b)}
	shows := steps(quietly("100", b), []step{differs, {want: "list metadata continue=next limit=2", body: listed("200", "", "c c 150")}}, holds("100", b))
	events := change.NewStream(eventsResource, "", "", "")
	playAll(t, []scripted{
		{name: "the position moves only once another watch confirms it", log: resumed("100", a, b),
			steps: steps(quietly("100", b), []step{
				both("200").where("100"), emptyWatch("100"), both("300").where("200"), emptyWatch("200"), both("400"),
				{want: "watch rv=300", hang: true},
			}), want: "at 300"},
		// The stream knows that Events have no bookmarks. So the list is made while the watch is open, and the next watch begins at the list.
		// The server may compact what is before that.
		{name: "Events are compared while their watch is open", log: resumed("100", a), stream: events,
			steps: steps(holds("100", a), []step{
				emptyWatch("100"), unchanged("200"), emptyWatch("200").where("200"), unchanged("300"),
				{want: "watch rv=300", body: added("x x 310"), lasts: aWatch}, // and nothing more
				{want: "list metadata limit=2", body: listed("400", "", a, "x x 310")},
				{want: "watch rv=400", body: deleted("x x 420"), hang: true},
			}), want: "c x@310 d x@420 at 400"}, // the position waits: more may have expired at 420
		// The watch has one more timeout to deliver what the list shows. If it does not, there is a gap.
		{name: "an open watch of Events does not deliver what a list shows", log: resumed("100", a), stream: events,
			steps: steps(holds("100", a), []step{
				emptyWatch("100"), {want: "list metadata limit=2", body: listed("200", "", a, "b b 150")}, emptyWatch("100"),
				{want: "list limit=2", body: listed("300", "", a, "b b 150")},
				{want: "watch rv=300", hang: true},
			}), want: "c b@150? at 300, gap 100-300 incomplete 1 inferred 1 c"},
		// An object that was created and deleted before the list is not in it: the watch after it must still deliver it.
		{name: "what came and went before the list is emitted", log: resumed("100", a, b), steps: steps(quietly("100", b), []step{
			both("200"), {want: "watch rv=100", body: added("x x 150") + deleted("x x 160"), hang: true},
		}), want: "c x@150 d x@160 at 160"},
		{name: "a list shows what the watch delivers then", log: resumed("100", a, b), steps: steps(shows,
			one(step{want: "watch rv=100", body: added("c c 150"), hang: true})), want: "c c@150 at 150"},
		{name: "a list shows what the watch does not deliver", log: resumed("100", a, b),
			steps: steps(shows, []step{emptyWatch("100"),
				{want: "list limit=2", body: listed("300", "next", a, "b b 170")},
				{want: "list continue=next limit=2", body: listed("300", "", "c c 150")},
				{want: "watch rv=300", hang: true}}), want: "u b@170? c c@150? at 300, gap 100-300 incomplete 2 inferred 1 c 1 u"},
	})
}

// where demands that the log is at a position when the request comes.
func (s step) where(position change.ResourceVersion) step {
	s.logAt = position
	return s
}

// Where bookmarks come, nothing is ever listed, and watches are as long as they are set.
func TestBookmarksSpareTheList(t *testing.T) {
	play(t, scripted{log: resumed("100", "a a 99"), options: func(o *reflector.Options) { o.Quiet = time.Hour }, steps: steps(
		holds("100", "a a 99"), []step{emptyWatch("100")}, holds("120", "a a 99"), []step{ // wakes the watch cache
			{want: "watch rv=100", body: bookmark("130"), lasts: aWatch},
			{want: "watch rv=130", body: bookmark("140"), lasts: 2 * plain().WatchTimeout},
			{want: "watch rv=140", hang: true},
		}), want: "at 140", inspect: func(t *testing.T, s *script) {
		for i, want := range map[int][2]int{2: {40, 62}, 5: {40, 62}, 6: {600, 1200}} {
			if got := s.timeouts[i]; got < want[0] || got > want[1] {
				t.Errorf("watch %d is asked for %d s, want %v", i, got, want)
			}
		}
	}})
}

// The server answers 410, and is where the log is: nothing was missed, so there is nothing to emit.
func TestA410WhereNothingHappenedSinceIsNoGap(t *testing.T) {
	end := one(step{want: "watch rv=100", body: modified("a a 101"), hang: true})
	held, same := holds("100", "a a 99"), listed("100", "", "a a 99") // a recovery looks first whether it is the same history
	playAll(t, []scripted{
		{name: "compared", log: resumed("100", "a a 99"),
			steps: steps(held, expired("100"), one(step{want: "list limit=2", body: same}), end),
			want:  "u a@101 at 101"},
		{name: "recovered", log: resumed("100", "a a 99"),
			options: func(o *reflector.Options) { o.Recovery = testOptions().Recovery },
			steps:   steps(held, expired("100"), held[1:], one(step{want: "list metadata limit=2", body: same}), end),
			want:    "u a@101 at 101"},
	})
}
