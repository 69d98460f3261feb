package change_test

import (
	"testing"

	"kubecdc/change"
)

func TestTheTextOfAnOpIsItsLetter(t *testing.T) {
	for op, want := range map[change.Op]string{change.Create: "c", change.Update: "u", change.Delete: "d", change.Read: "r"} {
		if got := op.String(); got != want {
			t.Errorf("%q is %q", want, got)
		}
		var text string
		if n := testing.AllocsPerRun(100, func() { text = op.String() }); n > 0 {
			t.Errorf("%q takes %v allocations", text, n)
		}
	}
}
