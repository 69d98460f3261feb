package reflector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
)

// Aggregated API servers whose resourceVersions are no numbers. What the tests of scripts have after a first list is what
// is tried again ten minutes later.

func TestAResourceWithoutNumericVersionsIsSaidToBeSoOnce(t *testing.T) {
	ofList := strings.ReplaceAll
	for name, c := range map[string]struct{ bad, says string }{
		"a composite version of the list":  {ofList(listed("100", "", "a a 10"), `{"resourceVersion":"100"`, `{"resourceVersion":"100/7"`), `"100/7"`},
		"no version of the list":           {ofList(listed("100", "", "a a 10"), `"resourceVersion":"100",`, ""), `""`},
		"a composite version of an object": {ofList(listed("100", "", "a a 10"), `"resourceVersion":"10"`, `"resourceVersion":"10/5"`), `"10/5"`},
		"an object without a version":      {ofList(listed("100", "", "a a 10"), `"resourceVersion":"10"`, `"x":""`), `""`},
		"an object without a uid":          {ofList(listed("100", "", "a a 10"), `"uid":"`+uid("a")+`"`, `"uid":""`), `uid ""`},
	} {
		t.Run("first list, "+name, func(t *testing.T) {
			l, o := newLedger(), &quietObserver{}
			playObserved(t, l, plain(), o, []step{
				{want: "list limit=2", body: c.bad},
				{want: "list limit=2", body: c.bad},
				{want: "list limit=2", body: listed("300", "", "a a 10")},
				{want: "watch rv=300", hang: true},
			}, func(t *testing.T, s *script) {
				expect(t, l, "r a@10", "300")
				if s.wait(1) < 5*time.Minute || len(l.raws) > 0 {
					t.Errorf("tried again after %s, with %d dead letters; want to leave the server alone, and none", s.wait(1), len(l.raws))
				}
				if !o.was(change.StateUnsupported) || len(o.errs) == 0 || !strings.Contains(o.errs[0].Error(), c.says) {
					t.Errorf("states %v and errors %v, want an error with %s", o.states, errors.Join(o.errs...), c.says)
				}
			})
		})
		t.Run("after a 410, "+name, func(t *testing.T) {
			l := resumed("100", "a a 10", "b b 99")
			playObserved(t, l, plain(), &quietObserver{}, steps(holds("100", "b b 99"), []step{
				{want: "watch rv=100", status: 410, body: gone("")},
				{want: "list limit=2", body: c.bad},
				{want: "list limit=2", body: listed("300", "", "a a 10", "b b 99")},
				{want: "watch rv=300", hang: true},
			}), func(t *testing.T, _ *script) { expect(t, l, "", "300") }) // b is not taken for deleted
		})
	}
}

// The list is empty, and all that the watch tells has no version.
func TestAWatchWithoutNumericVersionsIsSaidToBeSo(t *testing.T) {
	l, o := newLedger(), &quietObserver{}
	playObserved(t, l, plain(), o, []step{
		{want: "list limit=2", body: listed("100", "")},
		{want: "watch rv=100", body: strings.Replace(added("a a 101"), `"101"`, `"101/1"`, 1), hang: true},
		{want: "list metadata limit=1", body: listed("100", "")},
		{want: "watch rv=100", hang: true},
	}, func(t *testing.T, _ *script) {
		expect(t, l, "", "100")
		if !o.was(change.StateUnsupported) || len(l.raws) > 0 {
			t.Errorf("states %v, %d dead letters", o.states, len(l.raws))
		}
	})
}

// Objects were exported, and each watch delivers events without a version. They are dead letters once.
func TestEventsWithoutAVersionAreDeadLettersOnce(t *testing.T) {
	events := ""
	for n := range 25 {
		events += strings.Replace(modified(fmt.Sprintf("n%d a 101", n)), `"101"`, `""`, 1)
	}
	l, o := resumed("100", "a a 99"), &quietObserver{}
	playObserved(t, l, plain(), o, steps(holds("100", "a a 99"), []step{{want: "watch rv=100", body: events, lasts: 5 * time.Second}},
		holds("100", "a a 99"), []step{{want: "watch rv=100", body: events, lasts: 5 * time.Second}},
		holds("100", "a a 99"), []step{{want: "watch rv=100", body: events, lasts: 5 * time.Second}}), func(t *testing.T, s *script) {
		if expect(t, l, "", "100"); len(l.raws) != 25 || !o.was(change.StateUnsupported) || s.wait(6) < 5*time.Minute {
			t.Errorf("%d dead letters, states %v, tried again after %s", len(l.raws), o.states, s.wait(6))
		}
	})
}
