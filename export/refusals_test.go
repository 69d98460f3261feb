package export

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// A refusal holds back its own resource alone. The sink is asked again after ever longer delays, up to half a minute or so,
// which go on when the same is refused again soon.
func TestARefusedResourceIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := pods.Resource
		refused := sinks.Refusal{Place: "topic", Err: errors.New("not allowed"), Of: func(r change.Resource) bool { return r == mine }}
		all := refusals{}
		if all.due() != nil {
			t.Error("the sink is asked, though it refuses nothing")
		}
		if !all.add(refused) || all.add(refused) {
			t.Error("a refusal is new once, and only once")
		}
		if all.of(mine) == nil || all.of(change.Resource{Plural: "nodes"}) != nil {
			t.Error("not this resource alone waits")
		}
		began, longest := time.Now(), time.Duration(0)
		for range 12 {
			asked := time.Now()
			<-all.due()
			longest = max(longest, time.Since(asked))
			all.of(mine).postpone()
		}
		if longest < 15*time.Second || longest > 45*time.Second || time.Since(began) > 5*time.Minute {
			t.Errorf("the longest delay is %s, twelve take %s", longest, time.Since(began))
		}
		delay := func(pause time.Duration) time.Duration { // after the sink has taken the records for so long
			all.of(mine).over = time.Now()
			if all.of(mine) != nil || all.due() != nil {
				t.Error("it is refused, though that is over")
			}
			time.Sleep(pause)
			all.add(refused)
			return time.Until(all.of(mine).next)
		}
		if soon, late := delay(time.Second), delay(time.Hour); soon < 10*time.Second || late > 2*time.Second {
			t.Errorf("refused again soon, it waits %s; after an hour %s", soon, late)
		}
	})
}
