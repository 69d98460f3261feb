package cluster

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Throttled is an answer that says for how long a quota delays the connection. The broker reads nothing from the connection
// meanwhile (KIP-219).
type Throttled interface{ ThrottledFor() time.Duration }

// ThrottledFor implements Throttled.
func (a BrokerAnswer) ThrottledFor() time.Duration {
	t, ok := a.Response.(kmsg.ThrottleResponse)
	if !ok {
		return 0
	}
	millis, _ := t.Throttle()
	return time.Duration(millis) * time.Millisecond
}

// HintQuota is what the user can do about a quota.
const HintQuota = "raise the quota of this user or client: kafka-configs.sh --describe --entity-type users, and --entity-type " +
	"clients, list them"

const throttledEvery = time.Minute // the shortest time between two log lines

// logThrottle logs that a quota delays requests.
func (c *Client) logThrottle(answer any) {
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
