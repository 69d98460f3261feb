package reflector_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"kubecdc/source/reflector"
)

// taken are the transitions that the streams of all tests took.
var taken struct {
	sync.Mutex
	all map[[2]reflector.State]bool
}

// take records a transition.
func take(from, to reflector.State) {
	taken.Lock()
	defer taken.Unlock()
	if taken.all == nil {
		taken.all = map[[2]reflector.State]bool{}
	}
	taken.all[[2]reflector.State{from, to}] = true
}

// judged runs the tests and then compares the table of transitions with those that were taken.
type judged struct{ *testing.M }

func (j judged) Run() int {
	code := j.M.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && !testing.Short()
	taken.Lock()
	defer taken.Unlock()
	rows := map[[2]reflector.State]bool{}
	for _, row := range reflector.Transitions {
		step := [2]reflector.State{row.From, row.To}
		rows[step] = true
		if whole && code == 0 && !taken.all[step] {
			fmt.Printf("no test takes the transition from %s to %s\n", row.From, row.To)
			code = 1
		}
	}
	for step := range taken.all {
		if !rows[step] && step[1] != reflector.StateAbsent {
			fmt.Printf("the transition from %s to %s is not in the table\n", step[0], step[1])
			code = 1
		}
	}
	return code
}

func TestTheProtocolPagePrintsTheTransitions(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, row := range reflector.Transitions {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row.From, row.To, row.When)
	}
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/protocol.md does not have this table:\n%s", table.String())
	}
}
