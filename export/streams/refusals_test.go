package streams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/exporttest"
)

// A refusal pauses only its own resource. The sink is probed with exponential backoff up to about half a minute. The backoff
// continues if the same is refused again soon.
func TestARefusedResourceIsProbedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := exporttest.Pods.Resource
		refused := sinks.Refusal{Place: "topic", Err: errors.New("not allowed"), Refuses: func(r change.Resource) bool { return r == mine }}
		all := Refusals{}
		if all.due() != nil {
			t.Error("a probe is due, though nothing is refused")
		}
		if !all.add(refused) || all.add(refused) {
			t.Error("a refusal is new not exactly once")
		}
		if all.refusalOf(mine) == nil || all.refusalOf(change.Resource{Plural: "nodes"}) != nil {
			t.Error("it does not pause this resource alone")
		}
		began, longest := time.Now(), time.Duration(0)
		for range 12 {
			waited := time.Now()
			<-all.due()
			longest = max(longest, time.Since(waited))
			all.refusalOf(mine).postpone()
		}
		if longest < 15*time.Second || longest > 45*time.Second || time.Since(began) > 5*time.Minute {
			t.Errorf("the longest delay is %s, twelve take %s", longest, time.Since(began))
		}
		delay := func(pause time.Duration) time.Duration { // for a refusal that comes some time after the last one ended
			all.refusalOf(mine).ended = time.Now()
			if all.refusalOf(mine) != nil || all.due() != nil {
				t.Error("it is refused, though the refusal has ended")
			}
			time.Sleep(pause)
			all.add(refused)
			return time.Until(all.refusalOf(mine).next)
		}
		if soon, late := delay(time.Second), delay(time.Hour); soon < 10*time.Second || late > 2*time.Second {
			t.Errorf("refused again soon, the probe is due in %s; after an hour in %s", soon, late)
		}
	})
}
