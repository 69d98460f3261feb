package cluster

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Throttled is an answer that says for how long a quota holds up the connection. The broker reads nothing of the connection meanwhile
// (KIP-219).
type Throttled interface{ ThrottledFor() time.Duration }

// ThrottledFor is of Throttled.
func (a BrokerAnswer) ThrottledFor() time.Duration {
	t, ok := a.Response.(kmsg.ThrottleResponse)
	if !ok {
		return 0
	}
	millis, _ := t.Throttle()
	return time.Duration(millis) * time.Millisecond
}

// HintQuota is what the user can do about a quota.
const HintQuota = "raise the quota of this user or client: kafka-configs.sh --describe --entity-type users, and --entity-type clients, list them"

const throttledEvery = time.Minute // at most so often the log says it

// noteThrottle logs that a quota holds up requests.
func (c *Client) noteThrottle(answer any) {
	t, ok := answer.(Throttled)
	if !ok || t.ThrottledFor() <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.throttled) >= throttledEvery {
		c.throttled = now
		c.Logger.Warn("Kafka throttles this client by a quota: nothing is lost, and all is late", "for", t.ThrottledFor(),
			"client", c.ClientID, "hint", HintQuota)
	}
}
