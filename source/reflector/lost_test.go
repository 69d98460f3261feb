package reflector_test

import (
	"testing"

	"kubecdc/change"
)

// A log has lost records of a stream up to version 100, at which it was compared before. The ledger has the objects that the log
// still has.
func TestALogThatHasLostRecordsIsComparedWhereItWasComplete(t *testing.T) {
	t.Parallel()
	pastList := func(answer step) []step {
		answer.want = "list rv=100 match=Exact limit=2"
		return append(holds("130", "a a 90"), answer)
	}
	present := []step{
		{want: "list limit=2", body: listed("140", "", "a a 90", "c c 120")},
		{want: "watch rv=140", hang: true},
	}
	removed := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"InternalError","code":500}`
	for _, c := range []struct {
		name, has string
		steps     []step
		changes   string
		position  change.ResourceVersion
		gap       string
	}{
		{"the watch brings what happened since", "a a 90", append(pastList(step{body: listed("100", "more", "a a 90", "b b 95")}),
			step{want: "list continue=more limit=2", body: listed("100", "", "d d 99")},
			step{want: "watch rv=100", body: modified("b b 101") + deleted("b b 103") + added("c c 120") + bookmark("130"), hang: true},
		), "r b@95 r d@99 u b@101 d b@103 c c@120", "130", ""},
		{"a deletion is lost", "a a 90", append(pastList(step{body: listed("100", "")}),
			step{want: "watch rv=100", body: bookmark("130"), hang: true}), "d a@90?", "130", ""},
		{"the version is compacted", "a a 90", append(pastList(step{status: 410, body: gone("")}), present...), "c c@120?", "140", "0 140"},
		{"between two pages", "a a 90", append(append(pastList(step{body: listed("100", "more", "a a 90", "b b 95")}),
			step{want: "list continue=more limit=2", status: 410, body: gone("other")}), present...), "r b@95 c c@120? d b@95?", "140", "0 140"},
		{"the server ignores Exact", "a a 90", append(pastList(step{body: listed("135", "", "a a 90", "c c 120")}), present...), "c c@120?", "140",
			"0 140"},
		{"its objects were stored in a version that was removed", "a a 90", append(append(holds("130", "a a 90"),
			step{want: "list rv=100 match=Exact limit=2", status: 500, body: removed},
			step{want: "list rv=100 match=Exact limit=2", status: 500, body: removed},
			step{want: "list rv=100 match=Exact limit=2", status: 500, body: removed},
			step{want: "list rv=100 match=Exact limit=2", status: 500, body: removed}), present...), "c c@120?", "140", "0 140"},
		{"the log has newer objects", "a a 110", []step{{want: "list limit=2", body: listed("140", "", "a a 110", "c c 120")}, present[1]},
			"c c@120?", "140", "0 140"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, options := resumed("0", c.has), plain()
			options.LostUpTo = "100"
			playObserved(t, l, options, &quietObserver{}, c.steps, func(t *testing.T, _ *script) {
				expect(t, l, c.changes, c.position)
				gap := ""
				for _, control := range l.controls {
					if g := control.Gap; g != nil {
						gap += string(g.From + " " + g.To)
					}
				}
				if gap != c.gap {
					t.Errorf("the gap is %q, want %q", gap, c.gap)
				}
			})
		})
	}
}
