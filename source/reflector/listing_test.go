package reflector_test

import (
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

func TestFirstListIsReadPageByPageAndWatchedFromItsVersion(t *testing.T) {
	l := newLedger()
	play(t, l, plain(), []step{
		{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
		{want: "list continue=next limit=2", body: listed("100", "", "c c 30")},
		{want: "watch rv=100", body: modified("a a 101") + bookmark("150"), hang: true},
	}, func(t *testing.T, _ *script) {
		expect(t, l, "r a@10 r b@20 r c@30 u a@101", "150")
		if c := l.controls; len(c) != 2 || c[0].Type != change.ControlSnapshotBegin || c[1].Type != change.ControlSnapshotEnd || *c[1].Objects != 3 {
			t.Errorf("control records %+v, want the snapshot's begin and its end with 3 objects", c)
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
			{want: "watch rv=200", hang: true},
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
		{want: "watch rv=300", hang: true},
	}, func(t *testing.T, _ *script) { expect(t, l, "r a@10", "300") })
}

func expired(version string) []step {
	return []step{{want: "watch rv=" + version, status: 410, body: gone("")}}
}

// inconsistentList is a list whose version is compacted twice before its last page, which has another version then.
func inconsistentList() []step {
	return []step{
		{want: "list limit=2", body: listed("100", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t1")},
		{want: "list limit=2", body: listed("200", "next", "a a 10")},
		{want: "list continue=next limit=2", status: 410, body: gone("t2")},
		{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260")},
	}
}

// A list that goes on with the inconsistent token ends only where the watch has passed its last page. What the pages have shown is not
// emitted twice. Deletions are the watch's own where it delivers them. No deleted object comes back.
func TestInconsistentListIsCaughtUpWith(t *testing.T) {
	l := resumed("50", "a a 10", "b b 20", "x x 21", "y y 22", "z z 23")
	play(t, l, plain(), steps(holds("100", "z z 23"), []step{
		{want: "watch rv=50", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("100", "next", "a a 60")},
		{want: "list continue=next limit=2", status: 410, body: gone("t1")},
		{want: "list limit=2", body: listed("200", "next", "a a 60", "b b 20")},
		{want: "list continue=next limit=2", status: 410, body: gone("t2")},
		{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260", "n n 290")}, // x, y, z are gone by 300
		// Catching up: m was made at 210 and changed at 260. x is changed and deleted, and o lives and dies. y was deleted before 200,
		// so no event reports it any more. z is made anew. The connection ends on the way.
		{want: "watch rv=200", body: added("m m 210") + modified("x x 220") + added("o o 230") + bookmark("235"), cut: true},
		{want: "list metadata limit=1", body: listed("310", "", "a a 60")},
		{want: "list metadata rv=290 match=Exact fields=metadata.name=n", body: listed("290", "", "n n 290")},
		{want: "watch rv=235", body: deleted("x x 240") + deleted("o o 250") + modified("m m 260") + deleted("z z 270") +
			added("z q 280") + deleted("z q 285") + added("n n 290") + bookmark("300") + modified("n n 320"), hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "u a@60? c m@260? c n@290? u x@220 c o@230 d x@240 d o@250 d z@270 c z@280 d z@285 d y@22? u n@320", "320")
		g := onlyGap(t, l)
		if g.From != "50" || g.To != "300" || g.Created != 2 || g.Updated != 1 || g.Deleted != 1 {
			t.Errorf("gap record %+v", g)
		}
	})
}

// While an inconsistent list is caught up with, the log must not go on from there. A crash begins again from the old position, and emits
// nothing twice.
func TestCrashWhileCatchingUpBeginsAgain(t *testing.T) {
	l := resumed("50", "a a 10", "x x 21")
	play(t, l, plain(), steps(holds("100", "x x 21"), expired("50"), inconsistentList(), []step{
		{want: "watch rv=200", body: modified("x x 220") + deleted("x x 240") + bookmark("250"), hang: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "c m@260? u x@220 d x@240", "50") })
	play(t, l, plain(), steps(holds("310", "m m 260"), []step{
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "c m@260? u x@220 d x@240", "400")
		if g := onlyGap(t, l); g.From != "50" || g.To != "400" || g.Complete {
			t.Errorf("gap record %+v", g)
		}
	})
}

// A list that begins again, and is then older than the log, leaves the stream where the log is complete. Neither the deletions that no
// watch has shown nor the gap record are lost.
func TestAStaleListWhileCatchingUpLosesNothing(t *testing.T) {
	l := resumed("50", "a a 10", "y y 22")
	play(t, l, plain(), steps(holds("100", "y y 22"), expired("50"), inconsistentList(), []step{
		{want: "watch rv=200", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("40", "", "y y 22")},
		{want: "list metadata limit=1", body: listed("310", "", "a a 10")},
		{want: "list metadata rv=260 match=Exact fields=metadata.name=m", body: listed("260", "", "m m 260")},
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "c m@260? d y@22?", "400")
		if g := onlyGap(t, l); g.From != "50" || g.To != "400" {
			t.Errorf("gap record %+v", g)
		}
	})
}

// A list that can't be caught up with, since its watch expires or is empty, begins again.
func TestAListThatCantBeCaughtUpWithBeginsAgain(t *testing.T) {
	again := []step{
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", hang: true},
	}
	fresh := plain()
	fresh.FreshTries = 1
	for name, c := range map[string]struct {
		options reflector.Options
		watched []step
	}{
		"410":   {fresh, steps(expired("200"), expired("200"))},
		"empty": {plain(), steps(one(emptyWatch("200")), holds("310", "m m 260"), one(emptyWatch("200")))},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("50", "a a 10")
			first := expired("50")
			if c.options.FreshTries > 0 {
				first = append(first, first...)
			}
			play(t, l, c.options, steps(holds("100", "a a 10"), first, inconsistentList(), c.watched, again),
				func(t *testing.T, _ *script) { expect(t, l, "c m@260?", "400") })
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
		{want: "watch rv=100", hang: true},
	}, func(t *testing.T, s *script) {
		expect(t, l, "r a@10 r b@20 r c@30 r d@40", "100")
		if s.wait(3) < 2*time.Second {
			t.Errorf("the server asked for 2 s of peace and got %s", s.wait(3))
		}
	})
}
