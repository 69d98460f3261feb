package reflector_test

import (
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

// A deletion may have the version that the object had. API servers on old libraries send it, or those with a store of their own.
func TestADeletionAtTheObjectsOwnVersion(t *testing.T) {
	selected := change.NewStream(configMaps, "", "app=a", "")
	all := change.NewStream(configMaps, "", "", "")
	for name, c := range map[string]struct {
		stream   *change.Stream
		events   string
		says     string
		position change.ResourceVersion
	}{
		"below the cursor":                   {all, added("c c 110") + deleted("a a 10"), "c c@110 d a@10?", "110"},
		"at the cursor":                      {all, deleted("b b 100"), "d b@100?", "100"},
		"above what the list had":            {all, modified("a a 110") + deleted("a a 110"), "u a@110 d a@110?", "110"},
		"twice":                              {all, deleted("a a 10") + deleted("a a 10") + bookmark("120"), "d a@10?", "120"},
		"late, after its name is used again": {all, deleted("a a 10") + added("a x 110") + deleted("a a 10"), "d a@10? c a@110", "110"},
		"and its events are repeated":        {all, modified("a a 110") + deleted("a a 110") + modified("a a 110") + added("a a 10"), "u a@110 d a@110?", "110"},
		"each event twice": {all, strings.Repeat(added("c c 110"), 2) + strings.Repeat(modified("c c 120"), 2) +
			strings.Repeat(deleted("c c 120"), 2) + strings.Repeat(added("c d 130"), 2) + strings.Repeat(deleted("c d 130"), 2),
			"c c@110 u c@120 d c@120? c c@130 d c@130?", "130"},
		"of another uid":                 {all, deleted("a x 10") + deleted("a x 5"), "", "100"},
		"it left a selector and is back": {selected, deleted("a a 10") + added("a a 110") + deleted("a a 10"), "d a@10? c a@110", "110"},
	} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", "a a 10", "b b 100")
			query := ""
			if c.stream == selected {
				query = " labels=app=a"
			}
			history := holds("100", "b b 100")
			for i := range history {
				history[i].want += query
			}
			playStream(t, l, c.stream, plain(), &quietObserver{}, steps(history, []step{{want: "watch rv=100" + query, body: c.events, hang: true}}),
				func(t *testing.T, _ *script) {
					expect(t, l, c.says, c.position)
					if len(l.raws)+len(l.controls) > 0 {
						t.Errorf("%d dead letters, control records %+v", len(l.raws), l.controls)
					}
				})
		})
	}
}

// A deletion that is older than the log's state of the object: what the API server has decides.
func TestADeletionThatContradictsTheLogIsDecidedByAList(t *testing.T) {
	for name, event := range map[string]string{"an older version": deleted("a a 10"), "another uid, later": deleted("a x 110")} {
		t.Run(name, func(t *testing.T) {
			l := resumed("100", "a a 99", "b b 20")
			play(t, l, plain(), steps(holds("100", "a a 99"), []step{
				{want: "watch rv=100", body: event, hang: true},
				{want: "list limit=2", body: listed("200", "", "b b 20")},
				{want: "watch rv=200", hang: true},
			}), func(t *testing.T, _ *script) { expect(t, l, "d a@99?", "200") })
		})
	}
}

func TestADeletionAtTheObjectsOwnVersionInAStreamingList(t *testing.T) {
	l := newLedger()
	play(t, l, streamingPlain(), []step{{want: streamed, body: added("a a 10") + added("b b 20") + deleted("a a 10") + added("a a 10") +
		initialEnd("200"), hang: true}}, func(t *testing.T, _ *script) { expect(t, l, "r a@10 r b@20 d a@10?", "200") })
}

// An API server whose objects change and keep their version: nobody knows the order of their changes.
func TestAResourceWhoseVersionsDoNotMoveIsUnsupported(t *testing.T) {
	other := strings.Replace(modified("a a 100"), `"v100"`, `"other"`, 1)
	served := configMaps
	served.Group = "store.example.com"
	aggregated := change.NewStream(served, "", "", "")
	events := map[string]string{
		"the stored body":                         other,
		"the last event's":                        modified("a a 110") + strings.Replace(modified("a a 110"), `"v110"`, `"other"`, 1),
		"the last event's, and no body is stored": modified("a a 110") + strings.Replace(modified("a a 110"), `"v110"`, `"other"`, 1),
		"below the cursor":                        bookmark("150") + other,
		"of a constant list":                      added("c c 100") + strings.Replace(modified("c c 100"), `"v100"`, `"other"`, 1),
	}
	for name, events := range events {
		t.Run(name, func(t *testing.T) {
			l, o, options := resumed("100", "a a 100"), &quietObserver{}, plain()
			l.bodies["default/a"] = obj("a a 100")
			if options.Stored = true; name == "the last event's, and no body is stored" {
				options.Stored = false
			}
			playStream(t, l, aggregated, options, o, steps(holds("100", "a a 100"), []step{{want: "list metadata", body: listed("100", "", "a a 100")},
				{want: "watch rv=100", body: events + bookmark("300"), hang: true}}),
				func(t *testing.T, s *script) {
					time.Sleep(time.Hour)
					if !o.was(change.StateUnsupported) || l.position == "300" || len(l.controls) != 1 || l.controls[0].Type != change.ControlStreamError {
						t.Errorf("states %v, position %s, control records %+v", o.states, l.position, l.controls)
					}
				})
		})
	}
	t.Run("a repeat", func(t *testing.T) {
		l, options := resumed("100", "a a 100"), plain()
		l.bodies["default/a"] = obj("a a 100")
		options.Stored = true
		play(t, l, options, steps(holds("100", "a a 100"), []step{{want: "watch rv=100", hang: true,
			body: modified("a a 100") + modified("b b 110") + modified("b b 110") + modified("a a 100") + bookmark("300")}}),
			func(t *testing.T, _ *script) { expect(t, l, "c b@110", "300") })
	})
}
