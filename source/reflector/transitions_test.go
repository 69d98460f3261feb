package reflector_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// seen are the transitions of all streams of the tests.
var seen struct {
	sync.Mutex
	all map[[2]change.StreamState]bool
}

func recordTransition(from, to change.StreamState) {
	seen.Lock()
	defer seen.Unlock()
	if seen.all == nil {
		seen.all = map[[2]change.StreamState]bool{}
	}
	seen.all[[2]change.StreamState{from, to}] = true
}

// judged runs the tests and then compares the table of transitions with those that were seen.
type judged struct{ *testing.M }

func (j judged) Run() int {
	code := j.M.Run()
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && !testing.Short()
	seen.Lock()
	defer seen.Unlock()
	rows := map[[2]change.StreamState]bool{}
	for _, row := range reflector.Transitions {
		step := [2]change.StreamState{row.From, row.To}
		rows[step] = true
		if all && code == 0 && !seen.all[step] {
			fmt.Printf("no test takes the transition from %s to %s\n", row.From, row.To)
			code = 1
		}
	}
	for step := range seen.all {
		if !rows[step] && step[1] != change.StateAbsent {
			fmt.Printf("the transition from %s to %s is not in the table\n", step[0], step[1])
			code = 1
		}
	}
	return code
}

func TestTheProtocolPagePrintsTheTransitions(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	mustDo(t, err)
	var table strings.Builder
	for _, row := range reflector.Transitions {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row.From, row.To, row.When)
	}
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/protocol.md does not have this table:\n%s", table.String())
	}
}
