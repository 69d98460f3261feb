package reflector_test

import (
	"testing"
	"time"

	"kubecdc/source/reflector"
)

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

func TestLists(t *testing.T) {
	// While an inconsistent list is caught up with, the log must not go on from there. A crash begins again from the old position, and
	// emits nothing twice.
	crashed := resumed("50", "a a 10", "x x 21")
	again := []step{
		{want: "list limit=2", body: listed("400", "", "a a 10", "m m 260")},
		{want: "watch rv=400", hang: true},
	}
	playAll(t, []scripted{
		{name: "the first list is read page by page, and watched from its version", steps: []step{
			{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
			{want: "list continue=next limit=2", body: listed("100", "", "c c 30")},
			{want: "watch rv=100", body: modified("a a 101") + bookmark("150"), hang: true},
		}, want: "r a@10 r b@20 r c@30 u a@101 at 150, snapshot-begin, snapshot-end 3"},
		{name: "a list that expires without a token begins again for ever", steps: []step{
			{want: "list limit=2", status: 410, body: gone("")},
			{want: "list limit=2", body: listed("100", "next", "a a 10")},
			{want: "list continue=next limit=2", status: 410, body: gone("")},
			{want: "list limit=2", body: listed("200", "next", "a a 10")},
			{want: "list continue=next limit=2", status: 410, body: gone("")},
			{want: "list limit=2", body: listed("300", "", "a a 10")},
			{want: "watch rv=300", hang: true},
		}, want: "r a@10 at 300, snapshot-begin, snapshot-end 1"},
		// A list that goes on with the inconsistent token ends only where the watch has passed its last page. What the pages have shown is
		// not emitted twice. Deletions are the watch's own where it delivers them. No deleted object comes back.
		{name: "an inconsistent list is caught up with", log: resumed("50", "a a 10", "b b 20", "x x 21", "y y 22", "z z 23"),
			steps: steps(holds("100", "z z 23"), expired("50"), []step{
				{want: "list limit=2", body: listed("100", "next", "a a 60")},
				{want: "list continue=next limit=2", status: 410, body: gone("t1")},
				{want: "list limit=2", body: listed("200", "next", "a a 60", "b b 20")},
				{want: "list continue=next limit=2", status: 410, body: gone("t2")},
				{want: "list continue=t2 limit=2", body: listed("300", "", "m m 260", "n n 290")}, // x, y, z are gone by 300
				// Catching up: m was made at 210 and changed at 260. x is changed and deleted, and o lives and dies. y was deleted before
				// 200, so no event reports it any more. z is made anew. The connection ends on the way.
				{want: "watch rv=200", body: added("m m 210") + modified("x x 220") + added("o o 230") + bookmark("235"), cut: true},
				{want: "list metadata limit=1", body: listed("310", "", "a a 60")},
				{want: "list metadata rv=290 match=Exact fields=metadata.name=n", body: listed("290", "", "n n 290")},
				{want: "watch rv=235", body: deleted("x x 240") + deleted("o o 250") + modified("m m 260") + deleted("z z 270") +
					added("z q 280") + deleted("z q 285") + added("n n 290") + bookmark("300") + modified("n n 320"), hang: true},
			}),
			want: "u a@60? c m@260? c n@290? u x@220 c o@230 d x@240 d o@250 d z@270 c z@280 d z@285 d y@22? u n@320 at 320, gap 50-300 incomplete 4 inferred 2 c 1 u 1 d"},
		{name: "a crash while catching up", log: crashed,
			steps: steps(holds("100", "x x 21"), expired("50"), inconsistentList(), []step{
				{want: "watch rv=200", body: modified("x x 220") + deleted("x x 240") + bookmark("250"), hang: true},
			}), want: "c m@260? u x@220 d x@240 at 50"},
		{name: "and what follows it", log: crashed, steps: steps(holds("310", "m m 260"), again),
			want: "c m@260? u x@220 d x@240 at 400, gap 50-400 incomplete"},
		// A list that begins again, and is then older than the log, leaves the stream where the log is complete. Neither the deletions that
		// no watch has shown nor the gap record are lost.
		{name: "a stale list while catching up", log: resumed("50", "a a 10", "y y 22"),
			steps: steps(holds("100", "y y 22"), expired("50"), inconsistentList(), expired("200"), []step{
				{want: "list limit=2", body: listed("40", "", "y y 22")}}, holds("310", "m m 260"), again),
			want: "c m@260? d y@22? at 400, gap 50-400 incomplete 1 inferred 1 d"},
		{name: "a list that can't be caught up with, since its watch expires, begins again", log: resumed("50", "a a 10"),
			options: func(o *reflector.Options) { o.FreshTries = 1 },
			steps: steps(holds("100", "a a 10"), expired("50"), expired("50"),
				inconsistentList(), expired("200"), expired("200"), again),
			want: "c m@260? at 400, gap 50-400 incomplete 1 inferred 1 c"},
		{name: "or is empty", log: resumed("50", "a a 10"),
			steps: steps(holds("100", "a a 10"), expired("50"), inconsistentList(),
				one(emptyWatch("200")), holds("310", "m m 260"), one(emptyWatch("200")), again),
			want: "c m@260? at 400, gap 50-400 incomplete 1 inferred 1 c"},
		{name: "a page that fails is read again", steps: []step{
			{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
			{want: "list continue=next limit=2", body: listed("100", "more", "c c 30", "d d 40")[:300], cut: true},
			{want: "list continue=next limit=2", status: 429, after: "2", body: failure(429, "TooManyRequests")},
			{want: "list continue=next limit=2", body: listed("100", "", "c c 30", "d d 40"), pause: 2 * time.Second},
			{want: "watch rv=100", hang: true},
		}, want: "r a@10 r b@20 r c@30 r d@40 at 100, snapshot-begin, snapshot-end 4"},
	})
	for _, token := range []string{"", "inconsistent"} {
		play(t, scripted{steps: []step{
			{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")},
			{want: "list continue=next limit=2", status: 410, body: gone(token)},
			{want: "list limit=2", body: listed("200", "more", "b b 120", "c c 30")},
			{want: "list continue=more limit=2", body: listed("200", "", "d d 40")},
			{want: "watch rv=200", hang: true},
		}, want: "r a@10 r b@20 u b@120? r c@30 r d@40 d a@10? at 200, snapshot-begin, snapshot-end 3"})
	}
}
