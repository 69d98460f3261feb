package reflector_test

import (
	"testing"

	"kubecdc/change"
)

// Who may list and not watch is refused for as long: the lists between do not say that it is over.
func TestARefusalIsReportedOnceAtItsStartAndEnd(t *testing.T) {
	refused := one(step{want: "watch rv=100", status: 403, body: failure(403, "Forbidden")})
	held, list := holds("100", "a a 10"), step{want: "list limit=2", body: listed("100", "", "a a 10")}
	playAll(t, []scripted{
		{name: "for long", steps: steps(one(list), refused, held, refused, held, refused, held, refused, held,
			one(step{want: "watch rv=100", body: modified("a a 101"), hang: true})),
			want: "r a@10 u a@101 at 101, snapshot-begin, snapshot-end 1, stream-error, stream-recovered, refused",
			inspect: func(t *testing.T, s *script) {
				s.log.awaitRefusals(t, change.ControlStreamError, change.ControlStreamRecovered)
				for _, c := range s.log.refusals() {
					if c.Stream != "configmaps" || c.ResourceVersion != "100" || c.SinceMs == 0 || c.Cause == "" {
						t.Errorf("a refusal is reported as %+v", c)
					}
				}
			}},
		{name: "one that passes is not reported",
			steps: []step{{want: "list limit=2", status: 404, body: failure(404, "NotFound")}, list,
				{want: "watch rv=100", hang: true}}, want: "r a@10 at 100, snapshot-begin, snapshot-end 1"},
	})
}
