package reflector_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Aggregated API servers whose resourceVersions are no numbers. What the scripts have after a first list is what is tried again ten
// minutes later.
func TestAResourceWithoutNumericVersionsIsSaidToBeSoOnce(t *testing.T) {
	ofList, list := strings.ReplaceAll, listed("100", "", "a a 10")
	for name, c := range map[string]struct{ bad, says string }{
		"a composite version of the list":  {ofList(list, `{"resourceVersion":"100"`, `{"resourceVersion":"100/7"`), `"100/7"`},
		"no version of the list":           {ofList(list, `"resourceVersion":"100",`, ""), `""`},
		"a composite version of an object": {ofList(list, `"resourceVersion":"10"`, `"resourceVersion":"10/5"`), `"10/5"`},
		"an object without a version":      {ofList(list, `"resourceVersion":"10"`, `"x":""`), `""`},
		"an object without a uid":          {ofList(list, `"uid":"`+uid("a")+`"`, `"uid":""`), `uid ""`},
	} {
		playAll(t, []scripted{
			{name: "first list, " + name, reports: c.says, steps: []step{
				{want: "list limit=2", body: c.bad},
				{want: "list limit=2", body: c.bad, pause: 5 * time.Minute},
				{want: "list limit=2", body: listed("300", "", "a a 10")},
				{want: "watch rv=300", hang: true},
			}, want: "r a@10 at 300, snapshot-begin, stream-error, snapshot-end 1, stream-recovered, unsupported"},
			{name: "after a 410, " + name, log: resumed("100", "a a 10", "b b 99"),
				steps: steps(holds("100", "b b 99"), expired("100"), []step{
					{want: "list limit=2", body: c.bad},
					{want: "list limit=2", body: listed("300", "", "a a 10", "b b 99")},
					{want: "watch rv=300", hang: true},
				}),
				want: "at 300, stream-error, gap 100-300 incomplete, stream-recovered, unsupported"}, // b is not taken for deleted
		})
	}
	// The list is empty, and all that the watch tells has no version.
	play(t, scripted{steps: []step{
		{want: "list limit=2", body: listed("100", "")},
		{want: "watch rv=100", body: strings.Replace(added("a a 101"), `"101"`, `"101/1"`, 1), hang: true},
		{want: "list metadata limit=1", body: listed("100", "")},
		{want: "watch rv=100", hang: true},
	}, want: "at 100, snapshot-begin, snapshot-end 0, stream-error, stream-recovered, unsupported"})
}

// Objects were exported, and each watch delivers events without a version. They are dead letters once.
func TestEventsWithoutAVersionAreDeadLettersOnce(t *testing.T) {
	events := ""
	for n := range 25 {
		events += strings.Replace(modified(fmt.Sprintf("n%d a 101", n)), `"101"`, `""`, 1)
	}
	held, watch := holds("100", "a a 99"), one(step{want: "watch rv=100", body: events, lasts: 5 * time.Second})
	late := holds("100", "a a 99")
	late[0].pause = 5 * time.Minute
	play(t, scripted{log: resumed("100", "a a 99"), steps: steps(held, watch, held, watch, late, watch),
		want: "at 100, stream-error, stream-recovered, stream-error, 25 dead letters, unsupported"})
}
