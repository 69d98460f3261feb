package reflector_test

import (
	"strings"
	"testing"

	hide "kubecdc/internal/plain"
)

// A server that is behind the log, and then catches up: nothing of its old state is emitted.
func TestAStaleServerIsWaitedFor(t *testing.T) {
	newest := "a a 99"
	l := resumed("100", newest)
	play(t, l, plain(), steps([]step{
		{want: "list metadata limit=1", body: listed("90", "", "a a 80")},
	}, holds("100", newest), []step{
		{want: "watch rv=100", body: modified("a a 101"), hang: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "u a@101", "101") })
}

// After a 410 the list comes from a server that is behind: nothing of it is emitted, and the position is verified.
func TestAStaleListIsNotEmitted(t *testing.T) {
	newest := "a a 99"
	l := resumed("100", newest)
	play(t, l, plain(), steps(holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("90", "", "a a 80", "b b 70")},
	}, holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listed("200", "", "a a 99")},
		{want: "watch rv=200", hang: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "", "200") })
}

// The same, for custom resources, whose lists have their version after the items.
func TestAStaleListOfCustomResourcesIsNotEmitted(t *testing.T) {
	newest := "a a 99"
	l := resumed("100", newest, "b c 98")
	play(t, l, plain(), steps(holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listedItemsFirst("90", "", "a a 80", "b b 70", "d d 60")},
	}, holds("100", newest), []step{
		{want: "watch rv=100", status: 410, body: gone("")},
		{want: "list limit=2", body: listedItemsFirst("200", "next", "e e 97", "f f 150")}, // the event of e was malformed
		{want: "list continue=next limit=2", body: listedItemsFirst("200", "", "a a 99", "b b 160")},
		{want: "watch rv=200", hang: true},
	}), func(t *testing.T, _ *script) { expect(t, l, "c f@150? c e@97? d b@98? c b@160?", "200") })
}

// etcd was restored from a backup: the position is ahead for good.
func TestHistoryThatWentBackIsComparedAndSaid(t *testing.T) {
	l := resumed("1000", "a a 10", "b b 980", "c c 990", "d d 995", "e e 20")
	play(t, l, plain(), []step{
		{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
		{want: "list metadata limit=1", body: listed("900", "", "a a 10")},
		{want: "list limit=2", body: listed("905", "next", "a a 10", "b b 880")},
		{want: "list continue=next limit=2", body: listed("905", "", "c q 870", "f f 901")},
		{want: "watch rv=905", body: modified("b b 910"), hang: true},
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

// The restored server has grown past the position: only the newest object's own version shows it.
func TestAnotherHistoryIsSeenByItsNewestObject(t *testing.T) {
	l := resumed("1000", "hunter2 a 990", "b b 20")
	doubt := []step{
		{want: "list metadata limit=1", body: listed("1100", "", "hunter2 a 880")},
		{want: "list metadata rv=990 match=Exact fields=metadata.name=hunter2", body: listed("990", "", "hunter2 a 880")},
	}
	o := &quietObserver{}
	playObserved(t, l, plain(), o, steps(doubt, doubt, []step{
		{want: "list limit=2", body: listed("1105", "", "hunter2 a 880", "b b 20")},
		{want: "watch rv=1105", hang: true},
	}), func(t *testing.T, _ *script) {
		expect(t, l, "u hunter2@880?", "1105")
		if g := onlyGap(t, l); !strings.Contains(g.Reason, "history went backwards") {
			t.Errorf("gap record %+v, want one that says that history went backwards", g)
		}
		if text := hide.HideNames(o.errs[0].Error()); !strings.Contains(text, "behind the log") || strings.Contains(text, "hunter2") {
			t.Errorf("a status shows %q", text)
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
				{want: "watch rv=100", body: modified("a a 110"), hang: true},
			}, func(t *testing.T, _ *script) { expect(t, l, "u a@110", "110") })
		})
	}
}
