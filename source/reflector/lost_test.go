package reflector_test

import (
	"testing"

	"kubecdc/source/reflector"
)

// A log has lost records of a stream up to version 100, at which it was compared before. The ledger has the objects that the log
// still has.
func TestALogThatHasLostRecordsIsComparedWhereItWasComplete(t *testing.T) {
	pastList := func(answer step) []step {
		answer.want = "list rv=100 match=Exact limit=2"
		return append(holds("130", "a a 90"), answer)
	}
	present := []step{
		{want: "list limit=2", body: listed("140", "", "a a 90", "c c 120")},
		{want: "watch rv=140", hang: true},
	}
	removed := step{want: "list rv=100 match=Exact limit=2", status: 500, body: failure(500, "InternalError")}
	const compared = "c c@120? at 140, snapshot-begin, gap 0-140 incomplete 1 inferred 1 c"
	for _, c := range []struct {
		name, has string
		steps     []step
		want      string
	}{
		{"the watch brings what happened since", "a a 90", append(pastList(step{body: listed("100", "more", "a a 90", "b b 95")}),
			step{want: "list continue=more limit=2", body: listed("100", "", "d d 99")},
			step{want: "watch rv=100", body: modified("b b 101") + deleted("b b 103") + added("c c 120") + bookmark("130"), hang: true},
		), "r b@95 r d@99 u b@101 d b@103 c c@120 at 130, snapshot-begin, snapshot-end 3"},
		{"a deletion is lost", "a a 90", append(pastList(step{body: listed("100", "")}),
			step{want: "watch rv=100", body: bookmark("130"), hang: true}), "d a@90? at 130, snapshot-begin, snapshot-end 0"},
		{"the version is compacted", "a a 90", append(pastList(step{status: 410, body: gone("")}), present...), compared},
		{"between two pages", "a a 90", append(append(pastList(step{body: listed("100", "more", "a a 90", "b b 95")}),
			step{want: "list continue=more limit=2", status: 410, body: gone("other")}), present...), "r b@95 c c@120? d b@95? at 140, snapshot-begin, gap 0-140 incomplete 2 inferred 1 c 1 d"},
		{"the server ignores Exact", "a a 90", append(pastList(step{body: listed("135", "", "a a 90", "c c 120")}), present...), compared},
		{"its objects were stored in a version that was removed", "a a 90", steps(holds("130", "a a 90"), []step{removed, removed, removed, removed},
			present), compared},
		{"the log has newer objects", "a a 110", []step{{want: "list limit=2", body: listed("140", "", "a a 110", "c c 120")}, present[1]},
			"c c@120? at 140, gap 0-140 incomplete 1 inferred 1 c"},
	} {
		playAll(t, []scripted{{name: c.name, log: resumed("0", c.has), options: func(o *reflector.Options) { o.LostUpTo = "100" },
			steps: c.steps, want: c.want}})
	}
}
