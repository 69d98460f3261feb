package past

import (
	"fmt"
	"strings"
	"testing"
)

// tail takes -n as tail(1) does, too.
func TestTailTakesLinesAndNamespaces(t *testing.T) {
	for line, want := range map[string]string{"-n 20": " 20", "-n shop": "shop 0", "-n shop -n 20": "shop 20", "--lines 5 -n a1": "a1 5", "-n=-1": "-1 0"} {
		c := NewTail()
		if err := c.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		set := c.Flags().Lookup("namespace").Value.(namespaceOrLines)
		if got := fmt.Sprint(set.Namespace, " ", set.last); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
