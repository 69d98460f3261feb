package past

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubecdc/internal/plain"
)

// tail also accepts -n like tail(1).
func TestTailTakesLinesAndNamespaces(t *testing.T) {
	for line, want := range map[string]string{"-n 20": " 20", "-n shop": "shop 0", "-n shop -n 20": "shop 20", "--lines 5 -n a1": "a1 5", "-n -3": "write a number"} {
		c := NewTail()
		if err := c.ParseFlags(strings.Fields(line)); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		set := c.Flags().Lookup("namespace").Value.(namespaceOrLines)
		if got := fmt.Sprint(set.Namespace, " ", set.last); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A tail retains only the last changes, in the order in which they were logged. Within a batch it retains the last ones.
func TestTheLastLinesOfMany(t *testing.T) {
	most := lines{most: 20}
	for i := range 100_000 {
		l := updated("pods", fmt.Sprint("p-", i%70_000), "", "")
		l.Logged = time.Unix(int64(i/1000), 0)
		if i == 99_999 { // a clock that steps back does not move a change before an earlier one of its object
			l.Name, l.Logged = "p-29998", time.Unix(0, 0)
		}
		if now, wanted := most.newLine(l, l.Logged); wanted {
			now.text = plain.Own(l.Name)
			most.add(now)
		}
		if len(most.all) > 200 || len(most.last) > 200 {
			t.Fatalf("%d lines are retained", len(most.all))
		}
	}
	all := most.sorted()
	if len(all) != 20 || all[0].text != "p-29980" || all[19].text != "p-29998" {
		t.Errorf("%d lines from %s to %s", len(all), all[0].text, all[len(all)-1].text)
	}
}
