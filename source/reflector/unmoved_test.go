package reflector_test

import (
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// A deletion may have the version that the object had. API servers on old libraries send it, or those with a store of their own.
func TestADeletionAtTheObjectsOwnVersion(t *testing.T) {
	for _, c := range []struct{ name, labels, events, want string }{
		{"below the cursor", "", added("c c 110") + deleted("a a 10"), "c c@110 d a@10? at 110"},
		{"at the cursor", "", deleted("b b 100"), "d b@100? at 100"},
		{"above what the list had", "", modified("a a 110") + deleted("a a 110"), "u a@110 d a@110? at 110"},
		{"twice", "", deleted("a a 10") + deleted("a a 10") + bookmark("120"), "d a@10? at 120"},
		{"late, after its name is used again", "", deleted("a a 10") + added("a x 110") + deleted("a a 10"), "d a@10? c a@110 at 110"},
		{"and its events are repeated", "", modified("a a 110") + deleted("a a 110") + modified("a a 110") + added("a a 10"), "u a@110 d a@110? at 110"},
		{"each event twice", "", strings.Repeat(added("c c 110"), 2) + strings.Repeat(modified("c c 120"), 2) +
			strings.Repeat(deleted("c c 120"), 2) + strings.Repeat(added("c d 130"), 2) + strings.Repeat(deleted("c d 130"), 2),
			"c c@110 u c@120 d c@120? c c@130 d c@130? at 130"},
		{"of another uid", "", deleted("a x 10") + deleted("a x 5"), "at 100"},
		{"it left a selector and is back", "app=a", deleted("a a 10") + added("a a 110") + deleted("a a 10"), "d a@10? c a@110 at 110"},
	} {
		all := append(holds("100", "b b 100"), step{want: "watch rv=100", body: c.events, hang: true})
		for i := range all {
			all[i].want = strings.TrimSuffix(all[i].want+" labels="+c.labels, " labels=")
		}
		playAll(t, []scripted{{name: c.name, log: resumed("100", "a a 10", "b b 100"),
			stream: change.NewStream(configMaps, "", c.labels, ""),
			steps:  all, want: c.want}})
	}
	// A deletion that is older than the log's state of the object: what the API server has decides.
	for name, event := range map[string]string{"an older version": deleted("a a 10"), "another uid, later": deleted("a x 110")} {
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 99", "b b 20"), steps: steps(holds("100", "a a 99"), []step{
			{want: "watch rv=100", body: event, hang: true},
			{want: "list limit=2", body: listed("200", "", "b b 20")},
			{want: "watch rv=200", hang: true},
		}), want: "d a@99? at 200, gap 100-200 incomplete 1 inferred 1 d"}})
	}
	playAll(t, []scripted{{name: "in a streaming list", options: streamingLists,
		steps: []step{{want: streamed, body: added("a a 10") +
			added("b b 20") + deleted("a a 10") + added("a a 10") + initialEnd("200"), hang: true}},
		want: "r a@10 r b@20 d a@10? at 200, snapshot-begin, snapshot-end 1"}})
}

// An API server whose objects change and keep their version: nobody knows the order of their changes.
func TestAResourceWhoseVersionsDoNotMoveIsUnsupported(t *testing.T) {
	other := strings.Replace(modified("a a 100"), `"v100"`, `"other"`, 1)
	last := modified("a a 110") + strings.Replace(modified("a a 110"), `"v110"`, `"other"`, 1)
	served := configMaps
	served.Group = "store.example.com"
	stored := func() *ledger {
		l := resumed("100", "a a 100")
		l.bodies["default/a"] = obj("a a 100")
		return l
	}
	for name, events := range map[string]string{
		"the stored body":                         other,
		"the last event's":                        last,
		"the last event's, and no body is stored": last,
		"below the cursor":                        bookmark("150") + other,
		"of a constant list":                      added("c c 100") + strings.Replace(modified("c c 100"), `"v100"`, `"other"`, 1),
	} {
		playAll(t, []scripted{{name: name, log: stored(), stream: change.NewStream(served, "", "", ""),
			options: func(o *reflector.Options) { o.Stored = name != "the last event's, and no body is stored" },
			steps: steps(holds("100", "a a 100"), []step{{want: "list metadata", body: listed("100", "", "a a 100")},
				{want: "watch rv=100", body: events + bookmark("300"), hang: true}}),
			inspect: func(t *testing.T, s *script) {
				if text := s.outcome(); !strings.HasSuffix(text, ", stream-error, unsupported") || strings.Contains(text, "at 300") {
					t.Error(text)
				}
			}}})
	}
	playAll(t, []scripted{{name: "a repeat", log: stored(), options: func(o *reflector.Options) { o.Stored = true }, steps: steps(
		holds("100", "a a 100"), []step{{want: "watch rv=100", hang: true,
			body: modified("a a 100") + modified("b b 110") + modified("b b 110") + modified("a a 100") + bookmark("300")}}),
		want: "c b@110 at 300"}})
}
