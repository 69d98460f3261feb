package servers_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kubecdc/test/servers"
)

func TestABrokerBehindTheProxyIsReachedThroughItOnly(t *testing.T) {
	lane := servers.SharedKafka(t).Lane(t)
	c, err := kgo.NewClient(kgo.SeedBrokers(lane.Address))
	check(t, err)
	t.Cleanup(c.Close)
	check(t, c.Ping(t.Context()))
	before := lane.Accepted()
	lane.Cut()
	if err := c.Ping(t.Context()); err == nil {
		t.Fatal("the client reached the broker past the proxy")
	}
	check(t, lane.Restore())
	check(t, c.Ping(t.Context()))
	if lane.Accepted() <= before {
		t.Fatal("no connection came through the proxy after it was restored")
	}
}
