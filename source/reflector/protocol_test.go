package reflector_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// The rows of docs/protocol.md that a real server can't be made to show at will.

func steps(groups ...[]step) (all []step) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

func one(s step) []step { return []step{s} }

func onlyGap(t *testing.T, l *ledger) change.Gap {
	t.Helper()
	all := gaps(l.controls)
	if len(all) != 1 {
		t.Fatalf("%d gap records, want 1: %+v", len(all), all)
	}
	return all[0]
}

func TestFirstListIsReadPageByPageAndWatchedFromItsVersion(t *testing.T) {
	l := newLedger()
	play(t, l, plain(), []step{
		{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
		{want: "list continue=next limit=2", body: listed("100", "", "c c 30")},
		{want: "watch rv=100", body: modified("a a 101") + bookmark("150"), stay: true},
	}, func(t *testing.T, _ *script) {
		expect(t, l, "r a@10 r b@20 r c@30 u a@101", "150")
		if c := l.controls; len(c) != 2 || c[0].Type != change.ControlSnapshotBegin || c[1].Type != change.ControlSnapshotEnd || *c[1].Objects != 3 {
			t.Errorf("control records %+v, want the snapshot's begin and its end with 3 objects", c)
		}
	})
}

func TestWatch410ComparesAList(t *testing.T) {
	for name, answer := range map[string]step{
		"as HTTP status": {status: 410, body: gone("")},
		"as ERROR event": {body: errorEvent(gone(""))},
		"after events":   {body: modified("a a 101") + errorEvent(gone(""))},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", "a a 99", "b b 90")
			answer.want = "watch rv=100"
			play(t, l, plain(), steps(holds("100", "a a 99"), []step{answer,
				{want: "list limit=2", body: listed("200", "", "a a 101", "c c 150")},
				{want: "watch rv=200", stay: true}}), func(t *testing.T, _ *script) {
				want, from, inferred := "u a@101? c c@150? d b@90?", "100", 3
				if name == "after events" {
					want, from, inferred = "u a@101 c c@150? d b@90?", "101", 2
				}
				expect(t, l, want, "200")
				if g := onlyGap(t, l); string(g.From) != from || g.To != "200" || g.Complete || g.Inferred != inferred {
					t.Errorf("gap record %+v", g)
				}
			})
		})
	}
}

func TestFreshConnectionsAreTriedBeforeAList(t *testing.T) {
	l := resumed("100", "a a 99")
	o := plain()
	o.FreshTries = 2
	play(t, l, o, steps(holds("100", "a a 99"), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "watch rv=100", body: errorEvent(gone(""))},
		{want: "watch rv=100", body: modified("a a 101"), stay: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "u a@101", "101")
		if all := gaps(l.controls); len(all) > 0 {
			t.Errorf("gap records %+v, want none", all)
		}
	})
}

func TestListThatExpiresOnceBeginsAgain(t *testing.T) {
	for _, token := range []string{"", "inconsistent"} {
		l := newLedger()
		play(t, l, plain(), []step{
			{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
			{want: "list continue=next limit=2", status: 410, body: gone(token)},
			{want: "list limit=2", body: listed("200", "more", "b b 120", "c c 30")},
			{want: "list continue=more limit=2", body: listed("200", "", "d d 40")},
			{want: "watch rv=200", stay: true},
		}, func(t *testing.T, _ *script) {
			expect(t, l, "r a@10 r b@20 u b@120? r c@30 r d@40 d a@10?", "200")
			if n := *l.controls[len(l.controls)-1].Objects; n != 3 {
				t.Errorf("the snapshot held %d objects, want 3", n)
			}
		})
	}
}

func TestListThatExpires410WithoutATokenBeginsAgainForever(t *testing.T) {
	l := newLedger()
	play(t, l, plain(), []step{
		{want: "list limit=2", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("100", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("200", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("300", "", "a a 10")},
		{want: "watch rv=300", stay: true},
	}, func(t *testing.T, _ *script) { expect(t, l, "r a@10", "300") })
}

// A list that goes on with the inconsistent token ends only where the watch has passed its last page: what the pages
// told is not told twice, deletions are the watch's own where it tells of them, and nothing rises from the dead.
func TestInconsistentListIsCaughtUpWith(t *testing.T) {
	l := resumed("50", "a a 10", "b b 20", "x x 21", "y y 22", "z z 23")
	play(t, l, plain(), steps(holds("100", "z z 23"), []step{
		{want: "watch rv=50", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("100", "next", "a a 60")},
		{want: "list continue=next limit=2", status: 410, body: gone("t1")},
		{want: "list limit=2", body: listed("200", "next", "a a 60", "b b 20")},
		{want: "list continue=next limit=2", status: 410, body: gone("t2")},
		{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260", "n n 290")}, // x, y, z are gone by 300
		// Catching up: m was made at 210 and changed at 260; x is changed and deleted; o lives and dies; y was
		// deleted before 200, so nobody tells of it any more; z is made anew. The connection ends on the way.
		{want: "watch rv=200", body: added("m m 210") + modified("x x 220") + added("o o 230") + bookmark("235"), cut: true},
		{want: "list metadata limit=1", body: listed("310", "", "a a 60")},
		{want: "watch rv=235", body: deleted("x x 240") + deleted("o o 250") + modified("m m 260") + deleted("z z 270") +
			added("z q 280") + deleted("z q 285") + added("n n 290") + bookmark("300") + modified("n n 320"), stay: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "u a@60? c m@260? c n@290? u x@220 c o@230 d x@240 d o@250 d z@270 c z@280 d z@285 d y@22? u n@320", "320")
		g := onlyGap(t, l)
		if g.From != "50" || g.To != "300" || g.Created != 2 || g.Updated != 1 || g.Deleted != 1 {
			t.Errorf("gap record %+v", g)
		}
	})
}

// While an inconsistent list is caught up with, the log must not go on from there: a crash begins again from the old
// position, and tells nothing twice.
func TestCrashWhileCatchingUpBeginsAgain(t *testing.T) {
	l := resumed("50", "a a 10", "x x 21")
	play(t, l, plain(), steps(holds("100", "x x 21"), []step{
		{want: "watch rv=50", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("100", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t1")},
		{want: "list limit=2", body: listed("200", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t2")},
		{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260")},
		{want: "watch rv=200", body: modified("x x 220") + deleted("x x 240") + bookmark("250"), stay: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "c m@260? u x@220 d x@240", "50") })
	play(t, l, plain(), steps([]step{
		{want: "list metadata limit=1", body: listed("310", "", "a a 60")}, // the newest object is newer than the position: no witness
		{want: "watch rv=50", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", stay: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "c m@260? u x@220 d x@240", "400") })
}

// A list that can't be caught up with, since its watch expires or says nothing, begins again.
func TestAListThatCantBeCaughtUpWithBeginsAgain(t *testing.T) {
	inconsistent := []step{
		{want: "list limit=2", body: listed("100", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t1")},
		{want: "list limit=2", body: listed("200", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t2")},
		{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260")},
	}
	again := []step{
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", stay: true},
	}
	expired := func(version string) step { return step{want: "watch rv=" + version, status: 410, body: gone("")} }
	fresh := plain()
	fresh.FreshTries = 1
	for name, c := range map[string]struct {
		options reflector.Options
		watched []step
	}{
		"410":    {fresh, []step{expired("200"), expired("200")}},
		"silent": {plain(), []step{silentWatch("200"), {want: "list metadata limit=1", body: listed("310", "", "a a 10")}, silentWatch("200")}},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("50", "a a 10")
			first := []step{expired("50")}
			if c.options.FreshTries > 0 {
				first = append(first, expired("50"))
			}
			play(t, l, c.options, steps(holds("100", "a a 10"), first, inconsistent, c.watched, again),
				func(t *testing.T, _ *script) { expect(t, l, "c m@260?", "400") })
		})
	}
}

func TestErrorsOfTheServerAreWaitedOut(t *testing.T) {
	newest := "a a 99"
	for name, c := range map[string]struct {
		answer   step
		min, max time.Duration
	}{
		"504 too large resource version": {step{status: 504, body: tooLarge}, time.Second, 2 * time.Second},
		"504 as ERROR event":             {step{body: errorEvent(tooLarge)}, time.Second, 2 * time.Second},
		"429 with Retry-After":           {step{status: 429, after: "7", body: failure(429, "TooManyRequests")}, 7 * time.Second, 9 * time.Second},
		"503 with Retry-After":           {step{status: 503, after: "3", body: "<html>proxy</html>"}, 3 * time.Second, 4 * time.Second},
		"500":                            {step{status: 500, body: failure(500, "InternalError")}, 0, time.Second},
		"refused":                        {step{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, 0, time.Second},
		"reset":                          {step{body: bookmark("100"), cut: true}, 0, time.Second},
		"no answer":                      {step{err: errors.New("broken")}, 0, time.Second},
		"cut in an event":                {step{body: modified("a a 101")[:40], cut: true}, 0, time.Second},
		"ended in an event":              {step{body: modified("a a 101")[:40]}, 0, time.Second},
		"silent":                         {step{stay: true}, 3 * time.Minute, 3*time.Minute + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", newest)
			c.answer.want = "watch rv=100"
			play(t, l, plain(), steps(holds("100", newest), one(c.answer), holds("100", newest), []step{
				{want: "watch rv=100", body: modified("a a 101"), stay: true},
			}), func(t *testing.T, s *script) {
				expect(t, l, "u a@101", "101")
				if wait := s.wait(3); wait < c.min || wait > c.max {
					t.Errorf("the server was left alone for %s, want %s to %s", wait, c.min, c.max)
				}
			})
		})
	}
}

func TestAPageThatFailsIsReadAgain(t *testing.T) {
	l := newLedger()
	play(t, l, plain(), []step{
		{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
		{want: "list continue=next limit=2", body: listed("100", "more", "c c 30", "d d 40")[:300], cut: true},
		{want: "list continue=next limit=2", status: 429, after: "2", body: failure(429, "TooManyRequests")},
		{want: "list continue=next limit=2", body: listed("100", "", "c c 30", "d d 40")},
		{want: "watch rv=100", stay: true},
	}, func(t *testing.T, s *script) {
		expect(t, l, "r a@10 r b@20 r c@30 r d@40", "100")
		if s.wait(3) < 2*time.Second {
			t.Errorf("the server asked for 2 s of peace and got %s", s.wait(3))
		}
	})
}

// A server that is behind the log, and then catches up: nothing is told from its old state.
func TestAStaleServerIsWaitedFor(t *testing.T) {
	newest := "a a 99"
	l := resumed("100", newest)
	play(t, l, plain(), steps([]step{
		{want: "list metadata limit=1", body: listed("90", "", "a a 80")},
	}, holds("100", newest), []step{
		{want: "watch rv=100", body: modified("a a 101"), stay: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "u a@101", "101") })
}

// After a 410 the list comes from a server that is behind: nothing of it is told, and the position is verified.
func TestAStaleListIsNotTold(t *testing.T) {
	newest := "a a 99"
	l := resumed("100", newest)
	play(t, l, plain(), steps(holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("90", "", "a a 80", "b b 70")},
	}, holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("200", "", "a a 99")},
		{want: "watch rv=200", stay: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "", "200") })
}

// etcd was restored from a backup: the position is ahead for good.
func TestHistoryThatWentBackIsComparedAndSaid(t *testing.T) {
	l := resumed("1000", "a a 10", "b b 980", "c c 990", "d d 995", "e e 20")
	play(t, l, plain(), []step{
		{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
		{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
		{want: "list limit=2", body: listed("905", "next", "a a 10", "b b 880")},
		{want: "list continue=next limit=2", body: listed("905", "", "c q 870", "f f 901")},
		{want: "watch rv=905", body: modified("b b 910"), stay: true},
	}, func(t *testing.T, _ *script) {
		deletions := "d d@995? d e@20?" // in any order: they are of two objects
		if strings.Contains(says(l), "d e@20? d d@995?") {
			deletions = "d e@20? d d@995?"
		}
		expect(t, l, "u b@880? d c@990? c c@870? c f@901? "+deletions+" u b@910", "910")
		g := onlyGap(t, l)
		if g.From != "1000" || g.To != "905" || g.Complete || !strings.Contains(g.Reason, "history went backwards") {
			t.Errorf("gap record %+v, want one that says that history went backwards", g)
		}
	})
}

// The restored server has grown past the position: only the newest object's own version tells.
func TestAnotherHistoryIsToldByItsNewestObject(t *testing.T) {
	l := resumed("1000", "a a 990", "b b 20")
	doubt := []step{
		{want: "list metadata limit=1", body: listed("1100", "", "a a 880")},
		{want: "list metadata rv=990 match=Exact fields=metadata.name=a", body: listed("990", "", "a a 880")},
	}
	play(t, l, plain(), steps(doubt, doubt, []step{
		{want: "list limit=2", body: listed("1105", "", "a a 880", "b b 20")},
		{want: "watch rv=1105", stay: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "u a@880?", "1105")
		if g := onlyGap(t, l); !strings.Contains(g.Reason, "history went backwards") {
			t.Errorf("gap record %+v, want one that says that history went backwards", g)
		}
	})
}

// Nothing is concluded where the newest object's version can't be read, or the answer is to another question.
func TestNoEvidenceIsNoOtherHistory(t *testing.T) {
	ask := "list metadata rv=99 match=Exact fields=metadata.name=a"
	for name, answer := range map[string]step{
		"compacted":       {status: 410, body: gone("")},
		"not understood":  {status: 400, body: failure(400, "BadRequest")},
		"another version": {body: listed("120", "", "a a 110")},
		"all objects":     {body: listed("99", "", "b b 20")},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", "a a 99")
			answer.want = ask
			play(t, l, plain(), []step{
				{want: "list metadata limit=1", body: listed("120", "", "a a 110")},
				answer,
				{want: "watch rv=100", body: modified("a a 110"), stay: true},
			}, func(t *testing.T, _ *script) { expect(t, l, "u a@110", "110") })
		})
	}
}

func TestVersionsAreNumbersOfAnyLength(t *testing.T) {
	const big = "9999999999999999999999998" // 25 digits, above 2^64
	next, more := "9999999999999999999999999", "10000000000000000000000000"
	l := newLedger()
	play(t, l, plain(), []step{
		{want: "list limit=2", body: listed(big, "", "a a 10000000000000000000", "b b 9")},
		{want: "watch rv=" + big, body: modified("b b "+more) + modified("b b "+next) + deleted("b b 10000000000000000000000001") +
			bookmark("10000000000000000000000002"), cut: true},
		{want: "list metadata limit=1", body: listed("10000000000000000000000003", "", "a a 10000000000000000000")},
		{want: "list metadata rv=10000000000000000000 match=Exact fields=metadata.name=a", body: listed("10000000000000000000", "", "a a 10000000000000000000")},
		{want: "watch rv=10000000000000000000000002", stay: true},
	}, func(t *testing.T, _ *script) {
		expect(t, l, "r a@10000000000000000000 r b@9 u b@"+more+" d b@10000000000000000000000001", "10000000000000000000000002")
	})
}

func TestWhatIsNotKnownIsTolerated(t *testing.T) {
	l := resumed("100", "a a 99")
	odd := strings.Replace(modified("a a 102"), `{"type"`, `{"new":{"x":[1,"}"]},"type"`, 1)
	play(t, l, plain(), steps(holds("100", "a a 99"), []step{{want: "watch rv=100", stay: true,
		body: `{"type":"SOMETHING","object":{"x":1}}` + "\n\n" + odd + `{"object":{},"type":"BOOKMARK2"}` + "\n" + modified("a a 103")}}),
		func(t *testing.T, _ *script) { expect(t, l, "u a@102 u a@103", "103") })
}

func TestMalformedGoesToTheDeadLetterAndTheWatchGoesOn(t *testing.T) {
	bad := []string{
		`{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"x","uid":"u"}}}`,                         // no version
		`{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"x","uid":"u","resourceVersion":"abc"}}}`, // no number
		`{"type":"ADDED","object":"text"}`, // no object
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":tru}}}`,                    // no literal
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":1,}}}`,                     // a comma too many
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":"` + "\x01" + `"}}}`,       // a control character
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":["k":1]}}`,                      // brackets
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101","managedFields":[{"a" 1}]},"data":{}}}`, // deep
		`{"type":"BOOKMARK","object":{"metadata":{}}}`,
		`this is no JSON`,
	}
	l := resumed("100", "a a 99")
	play(t, l, plain(), steps(holds("100", "a a 99"), []step{{want: "watch rv=100", stay: true,
		body: strings.Join(bad, "\n") + "\n" + modified("a a 102")}}), func(t *testing.T, _ *script) {
		expect(t, l, "u a@102", "102")
		for i, b := range bad {
			if i >= len(l.raws) || string(l.raws[i].Bytes) != b || l.raws[i].Reason == "" {
				t.Fatalf("dead letter %d of %d is not %s: %+v", i, len(l.raws), b, l.raws[min(i, len(l.raws)-1)])
			}
		}
	})
}

const initialEnd = `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"200","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// A streaming list comes in any order, with changes in between, and ends at its bookmark.
func TestStreamingList(t *testing.T) {
	o := plain()
	o.StreamingLists = reflector.StreamingAuto
	initial := "watch match=NotOlderThan initial=true"
	version := func(minor string) step { return step{want: "version", body: `{"major":"1","minor":"` + minor + `"}`} }
	t.Run("of a first snapshot", func(t *testing.T) {
		l := newLedger()
		play(t, l, o, []step{version("36+"), {want: initial, body: added("c c 30") + added("a a 10") + bookmark("150") +
			modified("a a 160") + added("d d 170") + deleted("d d 180") + initialEnd, stay: true},
			{want: "watch rv=200", stay: true}}, func(t *testing.T, _ *script) {
			expect(t, l, "r c@30 r a@10 u a@160? r d@170 d d@180", "200")
		})
	})
	t.Run("after a 410", func(t *testing.T) {
		l := resumed("100", "a a 10", "b b 20", "c c 99")
		play(t, l, o, steps(holds("100", "c c 99"), []step{{want: "watch rv=100", status: 410, body: gone("")}, version("32"),
			{want: initial, body: added("c c 150") + added("a a 10") + initialEnd, stay: true},
			{want: "watch rv=200", stay: true}}), func(t *testing.T, _ *script) { expect(t, l, "u c@150? d b@20?", "200") })
	})
	t.Run("cut, and then refused: pages", func(t *testing.T) {
		l := newLedger()
		play(t, l, o, []step{version("36"), {want: initial, body: added("a a 10"), cut: true},
			version("36"), {want: initial, status: 422, body: failure(422, "Invalid")},
			{want: "list limit=2", body: listed("200", "", "a a 10", "b b 20")},
			{want: "watch rv=200", stay: true}}, func(t *testing.T, _ *script) { expect(t, l, "r a@10 r b@20", "200") })
	})
	t.Run("of an old server: pages", func(t *testing.T) {
		l := newLedger()
		play(t, l, o, []step{version("31"), {want: "list limit=2", body: listed("200", "", "a a 10")}, {want: "watch rv=200", stay: true}},
			func(t *testing.T, _ *script) { expect(t, l, "r a@10", "200") })
	})
}

// Discovery may speak up in any state: another version is read from the same position; a removed resource's objects
// end; when it is back, they are a snapshot again.
func TestAResourceThatChangesIsAdopted(t *testing.T) {
	next := configMaps
	next.Version = "v2"
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		s := &script{steps: []step{
			{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")[:150], stay: true}, // hangs in a page
			{want: "list limit=2", body: listed("100", "", "a a 10", "b b 20")},
			{want: "watch rv=100", body: modified("a a 101"), stay: true},
			{want: "watch rv=101", status: 503, after: "600", body: "down"}, // a long pause
			{want: "list metadata limit=1", body: listed("102", "", "a a 101")},
			{want: "list metadata rv=101 match=Exact fields=metadata.name=a", body: listed("101", "", "a a 101")},
			{want: "watch rv=101", stay: true},
			{want: "list limit=2", body: listed("300", "", "a q 250")},
			{want: "watch rv=300", stay: true},
		}}
		stream, stop := startOn(t, &rest.Config{Host: "http://script", Transport: s, QPS: -1}, plain(), l, &quietObserver{})
		for _, r := range []*change.Resource{&next, &configMaps, &next, nil, &next} {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			stream.SetResource(r)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_ = stop()
		s.check(t)
		expect(t, l, "r a@10 r b@20 u a@101 d a@101? d b@20? r a@250", "300")
		var controls []string
		for _, c := range l.controls {
			controls = append(controls, c.Type)
		}
		want := []string{change.ControlSnapshotBegin, change.ControlSnapshotEnd, change.ControlStreamEnd, change.ControlSnapshotBegin, change.ControlSnapshotEnd}
		if !slices.Equal(controls, want) {
			t.Errorf("the control records are %q, want %q", controls, want)
		}
	})
}
