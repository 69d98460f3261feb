package reflector_test

import (
	"testing"

	"kubecdc/change"
)

// Who may list and not watch is refused for as long: the lists between do not say that it is over.
func TestARefusalIsReportedOnceAtItsStartAndEnd(t *testing.T) {
	refused := step{want: "watch rv=100", status: 403, body: failure(403, "Forbidden")}
	steps := []step{{want: "list limit=2", body: listed("100", "", "a a 10")}, refused}
	for range 3 {
		steps = append(steps, holds("100", "a a 10")...)
		steps = append(steps, refused)
	}
	steps = append(steps, holds("100", "a a 10")...)
	steps = append(steps, step{want: "watch rv=100", body: modified("a a 101"), hang: true})
	l := newLedger()
	play(t, l, plain(), steps, func(t *testing.T, _ *script) {
		expect(t, l, "r a@10 u a@101", "101")
		l.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered)
		for _, c := range l.refusals() {
			if c.Stream != "configmaps" || c.ResourceVersion != "100" || c.SinceMs == 0 || c.Cause == "" {
				t.Errorf("a refusal is reported as %+v", c)
			}
		}
	})
}

// One refusal that passes is not reported.
func TestARefusalThatPassesIsNotReported(t *testing.T) {
	l := newLedger()
	play(t, l, plain(), []step{{want: "list limit=2", status: 404, body: failure(404, "NotFound")},
		{want: "list limit=2", body: listed("100", "", "a a 10")}, {want: "watch rv=100", hang: true}}, func(t *testing.T, _ *script) {
		if all := l.refusals(); len(all) > 0 {
			t.Errorf("reported: %+v", all)
		}
	})
}
