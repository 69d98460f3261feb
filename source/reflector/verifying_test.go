package reflector_test

import (
	"strings"
	"testing"

	hide "kubecdc/internal/plain"
)

func wentBack(t *testing.T, s *script) {
	if g := onlyGap(t, s.log); !strings.Contains(g.Reason, "history went backwards") {
		t.Errorf("gap record %+v, want one that says that history went backwards", g)
	}
}

func TestThePositionIsVerified(t *testing.T) {
	newest := "a a 99"
	again := one(step{want: "watch rv=100", body: modified("a a 101"), hang: true})
	doubt := []step{
		{want: "list metadata limit=1", body: listed("1100", "", "hunter2 a 880")},
		{want: "list metadata rv=990 match=Exact fields=metadata.name=hunter2", body: listed("990", "", "hunter2 a 880")},
	}
	playAll(t, []scripted{
		{name: "a server that is behind the log, and then catches up: nothing of its old state is emitted",
			log:   resumed("100", newest),
			steps: steps(one(step{want: "list metadata limit=1", body: listed("90", "", "a a 80")}), holds("100", newest), again),
			want:  "u a@101 at 101"},
		// After a 410 the list comes from a server that is behind: nothing of it is emitted, and the position is verified.
		{name: "a stale list is not emitted", log: resumed("100", newest),
			steps: steps(holds("100", newest), expired("100"), []step{
				{want: "list limit=2", body: listed("90", "", "a a 80", "b b 70")},
			}, holds("100", newest), expired("100"), []step{
				{want: "list limit=2", body: listed("200", "", "a a 99")},
				{want: "watch rv=200", hang: true},
			}), want: "at 200, gap 100-200 incomplete"},
		// Their lists have the version after the items.
		{name: "nor one of custom resources", log: resumed("100", newest, "b c 98"),
			steps: steps(holds("100", newest), expired("100"), []step{
				{want: "list limit=2", body: listedItemsFirst("90", "", "a a 80", "b b 70", "d d 60")},
			}, holds("100", newest), expired("100"), []step{
				{want: "list limit=2", body: listedItemsFirst("200", "next", "e e 97", "f f 150")}, // the event of e was malformed
				{want: "list continue=next limit=2", body: listedItemsFirst("200", "", "a a 99", "b b 160")},
				{want: "watch rv=200", hang: true},
			}), want: "c f@150? c e@97? d b@98? c b@160? at 200, gap 100-200 incomplete 4 inferred 3 c 1 d"},
		{name: "etcd was restored from a backup: the position is ahead for good",
			log: resumed("1000", "a a 10", "b b 980", "c c 990", "d d 995", "e e 20"), steps: []step{
				{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
				{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
				{want: "list limit=2", body: listed("905", "next", "a a 10", "b b 880")},
				{want: "list continue=next limit=2", body: listed("905", "", "c q 870", "f f 901")},
				{want: "watch rv=905", body: modified("b b 910"), hang: true},
			}, inspect: func(t *testing.T, s *script) {
				wentBack(t, s)
				const two, other = "d d@995? d e@20?", "d e@20? d d@995?" // in any order
				got := strings.Replace(s.outcome(), other, two, 1)
				if got != "u b@880? d c@990? c c@870? c f@901? "+two+" u b@910 at 910, gap 1000-905 incomplete 6 inferred 2 c 1 u 3 d" {
					t.Error(got)
				}
			}},
		// Only the newest object's own version shows it.
		{name: "the restored server has grown past the position", log: resumed("1000", "hunter2 a 990", "b b 20"),
			steps: steps(doubt, doubt, []step{
				{want: "list limit=2", body: listed("1105", "", "hunter2 a 880", "b b 20")},
				{want: "watch rv=1105", hang: true},
			}), want: "u hunter2@880? at 1105, gap 1000-1105 incomplete 1 inferred 1 u", inspect: func(t *testing.T, s *script) {
				wentBack(t, s)
				if text := hide.HideNames(s.observer.errs[0].Error()); !strings.Contains(text, "behind the log") || strings.Contains(text, "hunter2") {
					t.Errorf("a status shows %q", text)
				}
			}},
	})
	// Nothing is concluded where the newest object's version can't be read, or the answer is to another question.
	for name, answer := range map[string]step{
		"compacted":       {status: 410, body: gone("")},
		"not understood":  {status: 400, body: failure(400, "BadRequest")},
		"another version": {body: listed("120", "", "a a 110")},
		"all objects":     {body: listed("99", "", "b b 20")},
	} {
		answer.want = "list metadata rv=99 match=Exact fields=metadata.name=a"
		playAll(t, []scripted{{name: name, log: resumed("100", newest), steps: []step{
			{want: "list metadata limit=1", body: listed("120", "", "a a 110")},
			answer,
			{want: "watch rv=100", body: modified("a a 110"), hang: true},
		}, want: "u a@110 at 110"}})
	}
}
